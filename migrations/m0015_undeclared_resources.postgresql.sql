-- What a Connector offered at its last registration and may not serve.
CREATE TABLE undeclared_resources (
    node_id TEXT COLLATE "C" NOT NULL REFERENCES nodes (id),
    resource_id TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    seen_at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (node_id, resource_id)
);
