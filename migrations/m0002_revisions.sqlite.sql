-- Counters that only go up; a snapshot names the revision it was made of.
CREATE TABLE revisions (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT;
