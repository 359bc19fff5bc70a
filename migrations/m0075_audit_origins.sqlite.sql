-- The records that others wrote: where they stood in the queue and in their spools.
CREATE TABLE audit_origins (
    seq INTEGER PRIMARY KEY REFERENCES audit_log (seq),
    queue_id INTEGER NOT NULL UNIQUE,
    event_id TEXT NOT NULL UNIQUE,
    origin TEXT NOT NULL,
    spool_id TEXT NOT NULL,
    n INTEGER NOT NULL,
    UNIQUE (origin, spool_id, n)
) STRICT;
