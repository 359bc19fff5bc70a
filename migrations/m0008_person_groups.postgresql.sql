-- Groups of persons; policies speak of them.
CREATE TABLE person_groups (
    name TEXT COLLATE "C" PRIMARY KEY,
    added_at DOUBLE PRECISION NOT NULL
);
