-- A source of a Connector publishes into a scope as long as its lease lasts.
CREATE TABLE scope_leases (
    scope TEXT COLLATE "C" NOT NULL REFERENCES scopes (name) ON DELETE CASCADE,
    node_id TEXT COLLATE "C" NOT NULL REFERENCES nodes (id),
    source TEXT COLLATE "C" NOT NULL,
    expires_at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (scope, node_id, source)
);
