-- The audit queue: rows that others wrote and signed, as they came. Nothing in it is trusted;
-- origin, spool_id and n are what the record says, to count and to find by; digest is of the row.
CREATE TABLE outbox (
    id BIGINT PRIMARY KEY,
    origin TEXT COLLATE "C" NOT NULL,
    spool_id TEXT COLLATE "C" NOT NULL,
    n BIGINT NOT NULL,
    record BYTEA NOT NULL,
    personal BYTEA NOT NULL,
    key_id BYTEA NOT NULL,
    signature BYTEA NOT NULL,
    digest BYTEA NOT NULL,
    size BIGINT NOT NULL,
    queued_at DOUBLE PRECISION NOT NULL,
    hold TEXT COLLATE "C" CHECK (hold IN ('unsigned', 'unknown_key', 'forged', 'replayed')),
    held_at DOUBLE PRECISION,
    UNIQUE (digest, id)
);
