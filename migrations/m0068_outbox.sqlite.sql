-- The audit queue: rows that others wrote and signed, as they came. Nothing in it is trusted;
-- origin, spool_id and n are what the record says, to count and to find by; digest is of the row.
CREATE TABLE outbox (
    id INTEGER PRIMARY KEY,
    origin TEXT NOT NULL,
    spool_id TEXT NOT NULL,
    n INTEGER NOT NULL,
    record BLOB NOT NULL,
    personal BLOB NOT NULL,
    key_id BLOB NOT NULL,
    signature BLOB NOT NULL,
    digest BLOB NOT NULL,
    size INTEGER NOT NULL,
    queued_at REAL NOT NULL,
    hold TEXT CHECK (hold IN ('unsigned', 'unknown_key', 'forged', 'replayed')),
    held_at REAL,
    UNIQUE (digest, id)
) STRICT;
