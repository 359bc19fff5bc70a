-- A source of a Connector publishes into a scope as long as its lease lasts.
CREATE TABLE scope_leases (
    scope TEXT NOT NULL REFERENCES scopes (name) ON DELETE CASCADE,
    node_id TEXT NOT NULL REFERENCES nodes (id),
    source TEXT NOT NULL,
    expires_at REAL NOT NULL,
    PRIMARY KEY (scope, node_id, source)
) STRICT, WITHOUT ROWID;
