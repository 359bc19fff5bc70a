-- The entities decisions were made over, each slice once; records hold its digest.
CREATE TABLE entity_slices (
    digest TEXT PRIMARY KEY,
    text TEXT NOT NULL
) STRICT;
