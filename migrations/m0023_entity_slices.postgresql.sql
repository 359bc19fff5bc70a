-- The entities decisions were made over, each slice once; records hold its digest.
CREATE TABLE entity_slices (
    digest TEXT COLLATE "C" PRIMARY KEY,
    text TEXT COLLATE "C" NOT NULL
);
