-- What a Connector offered at its last registration and may not serve.
CREATE TABLE undeclared_resources (
    node_id TEXT NOT NULL REFERENCES nodes (id),
    resource_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    seen_at REAL NOT NULL,
    PRIMARY KEY (node_id, resource_id)
) STRICT, WITHOUT ROWID;
