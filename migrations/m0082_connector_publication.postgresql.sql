-- How what a Connector offers gets into the catalog: by hand, unless an operator said otherwise.
CREATE TABLE connector_publication (
    node_id TEXT COLLATE "C" PRIMARY KEY REFERENCES nodes (id),
    mode TEXT COLLATE "C" NOT NULL CHECK (mode IN ('manual', 'automatic')),
    since DOUBLE PRECISION NOT NULL
);
INSERT INTO connector_publication (node_id, mode, since)
    SELECT id, 'manual', enrolled_at FROM nodes WHERE role = 'connector';
