-- The last health report of each node, which is written over. Nothing is decided by it.
-- Without a worst finding the node makes no checks.
CREATE TABLE node_health (
    node_id TEXT COLLATE "C" PRIMARY KEY REFERENCES nodes (id),
    at DOUBLE PRECISION NOT NULL,
    worst TEXT COLLATE "C" CHECK (worst IN ('ok', 'info', 'warn', 'fail')),
    failed BIGINT NOT NULL CHECK (failed >= 0),
    warnings BIGINT NOT NULL CHECK (warnings >= 0),
    report TEXT COLLATE "C" NOT NULL
);
