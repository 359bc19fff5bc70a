-- Who writes: one row. The epoch only grows, and every write transaction compares it.
CREATE TABLE lease (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    epoch INTEGER NOT NULL CHECK (epoch >= 0),
    owner TEXT NOT NULL,
    instance TEXT NOT NULL,
    beats INTEGER NOT NULL CHECK (beats >= 0)
) STRICT;
