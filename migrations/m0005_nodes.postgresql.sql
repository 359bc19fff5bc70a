-- The node registry. The leaf is the newest one; generation counts renewals from 1. An audit key is one
-- node's for ever.
CREATE TABLE nodes (
    id TEXT COLLATE "C" PRIMARY KEY,
    name TEXT COLLATE "C" NOT NULL,
    role TEXT COLLATE "C" NOT NULL CHECK (role IN ('authority', 'proxy', 'connector')),
    key_sha256 BYTEA NOT NULL CHECK (length(key_sha256) = 32),
    audit_key BYTEA NOT NULL UNIQUE,
    state TEXT COLLATE "C" NOT NULL CHECK (state IN ('active', 'revoked')),
    generation BIGINT NOT NULL CHECK (generation >= 1),
    leaf_serial TEXT COLLATE "C" NOT NULL,
    leaf_key_sha256 BYTEA NOT NULL,
    leaf_expires DOUBLE PRECISION NOT NULL,
    enrolled_at DOUBLE PRECISION NOT NULL,
    revoked_at DOUBLE PRECISION,
    last_seen DOUBLE PRECISION,
    version TEXT COLLATE "C" NOT NULL
);
