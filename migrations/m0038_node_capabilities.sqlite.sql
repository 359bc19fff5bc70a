-- What a node said it can at its last registration: of each capability the highest version.
CREATE TABLE node_capabilities (
    node_id TEXT NOT NULL REFERENCES nodes (id),
    name TEXT NOT NULL,
    value INTEGER NOT NULL CHECK (value >= 0),
    PRIMARY KEY (node_id, name)
) STRICT, WITHOUT ROWID;
