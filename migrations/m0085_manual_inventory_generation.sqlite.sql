-- Counts, for each Connector, the changes of what it is meant to serve.
CREATE TABLE manual_inventory (
    node_id TEXT PRIMARY KEY REFERENCES nodes (id),
    generation INTEGER NOT NULL CHECK (generation >= 1),
    taken_at REAL NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO manual_inventory (node_id, generation, taken_at)
    SELECT id, 1, enrolled_at FROM nodes WHERE role = 'connector';
