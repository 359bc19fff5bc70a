-- Programs that act for somebody, known by their keys: by a certificate of their own, or as a
-- Proxy forwards them.
CREATE TABLE agents (
    id TEXT COLLATE "C" PRIMARY KEY,
    name TEXT COLLATE "C" NOT NULL UNIQUE,
    owner TEXT COLLATE "C" NOT NULL REFERENCES persons (id),
    state TEXT COLLATE "C" NOT NULL CHECK (state IN ('active', 'revoked')),
    route TEXT COLLATE "C" NOT NULL CHECK (route IN ('certificate', 'forwarded')),
    key_sha256 BYTEA NOT NULL CHECK (length(key_sha256) = 32),
    added_at DOUBLE PRECISION NOT NULL,
    revoked_at DOUBLE PRECISION,
    CHECK ((revoked_at IS NOT NULL) = (state = 'revoked'))
);
