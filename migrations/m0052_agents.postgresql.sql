-- Programs that act for somebody. Of whom they may enroll by an assertion: issuer, audience and claims
-- (a JSON object); empty where they enroll by tokens of this cluster only.
CREATE TABLE agents (
    id TEXT COLLATE "C" PRIMARY KEY,
    name TEXT COLLATE "C" NOT NULL UNIQUE,
    owner TEXT COLLATE "C" NOT NULL REFERENCES persons (id),
    state TEXT COLLATE "C" NOT NULL CHECK (state IN ('active', 'revoked')),
    issuer TEXT COLLATE "C" NOT NULL,
    audience TEXT COLLATE "C" NOT NULL,
    claims TEXT COLLATE "C" NOT NULL,
    added_at DOUBLE PRECISION NOT NULL,
    revoked_at DOUBLE PRECISION,
    CHECK ((revoked_at IS NOT NULL) = (state = 'revoked'))
);

-- Certificates issued to agents; they are good while the agent is.
CREATE TABLE agent_certificates (
    sha256 BYTEA PRIMARY KEY CHECK (length(sha256) = 32),
    serial TEXT COLLATE "C" NOT NULL UNIQUE,
    agent_id TEXT COLLATE "C" NOT NULL REFERENCES agents (id),
    key_sha256 BYTEA NOT NULL CHECK (length(key_sha256) = 32),
    generation BIGINT NOT NULL CHECK (generation > 0),
    issued_at DOUBLE PRECISION NOT NULL,
    expires DOUBLE PRECISION NOT NULL
);
