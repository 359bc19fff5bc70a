-- What a source of a Connector published holds as long as its lease lasts.
CREATE TABLE scope_leases (
    node_id TEXT NOT NULL REFERENCES nodes (id),
    source TEXT NOT NULL,
    expires_at REAL NOT NULL,
    PRIMARY KEY (node_id, source)
) STRICT, WITHOUT ROWID;
