-- What a node said it can at its last registration: of each capability the highest version.
CREATE TABLE node_capabilities (
    node_id TEXT COLLATE "C" NOT NULL REFERENCES nodes (id),
    name TEXT COLLATE "C" NOT NULL,
    value BIGINT NOT NULL CHECK (value >= 0),
    PRIMARY KEY (node_id, name)
);
