-- Counters that only go up; a snapshot names the revision it was made of.
CREATE TABLE revisions (
    name TEXT COLLATE "C" PRIMARY KEY,
    value BIGINT NOT NULL
);
