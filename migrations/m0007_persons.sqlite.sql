-- The one table that holds the names of people.
CREATE TABLE persons (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    state TEXT NOT NULL CHECK (state IN ('active', 'disabled', 'revoked')),
    added_at REAL NOT NULL,
    revoked_at REAL
) STRICT;
