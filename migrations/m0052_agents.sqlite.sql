-- Programs that act for somebody. Of whom they may enroll by an assertion: issuer, audience and claims
-- (a JSON object); empty where they enroll by tokens of this cluster only.
CREATE TABLE agents (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    owner TEXT NOT NULL REFERENCES persons (id),
    state TEXT NOT NULL CHECK (state IN ('active', 'revoked')),
    issuer TEXT NOT NULL,
    audience TEXT NOT NULL,
    claims TEXT NOT NULL,
    added_at REAL NOT NULL,
    revoked_at REAL,
    CHECK ((revoked_at IS NOT NULL) = (state = 'revoked'))
) STRICT;

-- Certificates issued to agents; they are good while the agent is.
CREATE TABLE agent_certificates (
    sha256 BLOB PRIMARY KEY CHECK (length(sha256) = 32),
    serial TEXT NOT NULL UNIQUE,
    agent_id TEXT NOT NULL REFERENCES agents (id),
    key_sha256 BLOB NOT NULL CHECK (length(key_sha256) = 32),
    generation INTEGER NOT NULL CHECK (generation > 0),
    issued_at REAL NOT NULL,
    expires REAL NOT NULL
) STRICT;
