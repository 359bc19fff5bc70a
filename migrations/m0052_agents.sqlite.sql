-- Programs that act for somebody, known by their keys: by a certificate of their own, or as a
-- Proxy forwards them.
CREATE TABLE agents (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    owner TEXT NOT NULL REFERENCES persons (id),
    state TEXT NOT NULL CHECK (state IN ('active', 'revoked')),
    route TEXT NOT NULL CHECK (route IN ('certificate', 'forwarded')),
    key_sha256 BLOB NOT NULL CHECK (length(key_sha256) = 32),
    added_at REAL NOT NULL,
    revoked_at REAL,
    CHECK ((revoked_at IS NOT NULL) = (state = 'revoked'))
) STRICT;
