-- What a source of a Connector published holds as long as its lease lasts.
CREATE TABLE scope_leases (
    node_id TEXT COLLATE "C" NOT NULL REFERENCES nodes (id),
    source TEXT COLLATE "C" NOT NULL,
    expires_at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (node_id, source)
);
