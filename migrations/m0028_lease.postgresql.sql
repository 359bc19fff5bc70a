-- Who writes: one row. The epoch only grows, and every write transaction compares it.
CREATE TABLE lease (
    one BIGINT PRIMARY KEY CHECK (one = 1),
    epoch BIGINT NOT NULL CHECK (epoch >= 0),
    owner TEXT NOT NULL,
    instance TEXT NOT NULL,
    beats BIGINT NOT NULL CHECK (beats >= 0)
);
