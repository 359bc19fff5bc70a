-- More names of a resource, for people. A name leads to one resource.
CREATE TABLE resource_names (
    resource_id TEXT NOT NULL REFERENCES resources (id) ON DELETE CASCADE,
    name TEXT NOT NULL UNIQUE,
    PRIMARY KEY (resource_id, name)
) STRICT, WITHOUT ROWID;
