-- The last health report of each node, which is written over. Nothing is decided by it.
-- Without a worst finding the node makes no checks.
CREATE TABLE node_health (
    node_id TEXT PRIMARY KEY REFERENCES nodes (id),
    at REAL NOT NULL,
    worst TEXT CHECK (worst IN ('ok', 'info', 'warn', 'fail')),
    failed INTEGER NOT NULL CHECK (failed >= 0),
    warnings INTEGER NOT NULL CHECK (warnings >= 0),
    report TEXT NOT NULL
) STRICT;
