-- Rows that an operator threw away: what they were is in the log, their digest with it.
CREATE TABLE outbox_discarded (
    queue_id INTEGER PRIMARY KEY,
    origin TEXT NOT NULL,
    spool_id TEXT NOT NULL,
    n INTEGER NOT NULL,
    digest BLOB NOT NULL,
    discarded_at REAL NOT NULL,
    UNIQUE (origin, spool_id, digest, queue_id)
) STRICT;
