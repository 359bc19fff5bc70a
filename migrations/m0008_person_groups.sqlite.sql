-- Groups of persons; policies speak of them.
CREATE TABLE person_groups (
    name TEXT PRIMARY KEY,
    added_at REAL NOT NULL
) STRICT;
