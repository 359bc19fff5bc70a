-- The one table that holds the names of people.
CREATE TABLE persons (
    id TEXT COLLATE "C" PRIMARY KEY,
    name TEXT COLLATE "C" NOT NULL UNIQUE,
    state TEXT COLLATE "C" NOT NULL CHECK (state IN ('active', 'disabled', 'revoked')),
    added_at DOUBLE PRECISION NOT NULL,
    revoked_at DOUBLE PRECISION
);
