-- Labels of resources; they become Cedar tags.
CREATE TABLE resource_labels (
    resource_id TEXT NOT NULL REFERENCES resources (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (resource_id, name)
) STRICT, WITHOUT ROWID;
