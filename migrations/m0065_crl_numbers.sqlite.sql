-- The number of each issuing CA's newest revocation list; the next one is greater.
CREATE TABLE crl_numbers (
    kind TEXT PRIMARY KEY,
    number INTEGER NOT NULL CHECK (number >= 1),
    issued_at REAL NOT NULL
) STRICT;
