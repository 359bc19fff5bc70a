-- The records that others wrote: where they stood in the queue and in their spools.
CREATE TABLE audit_origins (
    seq BIGINT PRIMARY KEY REFERENCES audit_log (seq),
    queue_id BIGINT NOT NULL UNIQUE,
    event_id TEXT COLLATE "C" NOT NULL UNIQUE,
    origin TEXT COLLATE "C" NOT NULL,
    spool_id TEXT COLLATE "C" NOT NULL,
    n BIGINT NOT NULL,
    UNIQUE (origin, spool_id, n)
);
