-- Counts, for each Connector, the changes of what it is meant to serve.
CREATE TABLE manual_inventory (
    node_id TEXT COLLATE "C" PRIMARY KEY REFERENCES nodes (id),
    generation BIGINT NOT NULL CHECK (generation >= 1),
    taken_at DOUBLE PRECISION NOT NULL
);
INSERT INTO manual_inventory (node_id, generation, taken_at)
    SELECT id, 1, enrolled_at FROM nodes WHERE role = 'connector';
