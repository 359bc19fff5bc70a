-- Which resource of an id it is: one that was removed and added again is another.
CREATE TABLE resource_identities (
    identity TEXT PRIMARY KEY,
    resource_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    first_seen REAL NOT NULL,
    retired_at REAL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX one_resource_of_an_id ON resource_identities (resource_id)
    WHERE retired_at IS NULL;
-- What is there already is the first of its id, for ever.
INSERT INTO resource_identities (identity, resource_id, kind, first_seen)
    SELECT 'first.' || id, id, kind, added_at FROM resources;
