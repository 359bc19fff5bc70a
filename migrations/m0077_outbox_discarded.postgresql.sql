-- Rows that an operator threw away: what they were is in the log, their digest with it.
CREATE TABLE outbox_discarded (
    queue_id BIGINT PRIMARY KEY,
    origin TEXT COLLATE "C" NOT NULL,
    spool_id TEXT COLLATE "C" NOT NULL,
    n BIGINT NOT NULL,
    digest BYTEA NOT NULL,
    discarded_at DOUBLE PRECISION NOT NULL,
    UNIQUE (origin, spool_id, digest, queue_id)
);
