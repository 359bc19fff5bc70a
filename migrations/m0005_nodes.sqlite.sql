-- The node registry. The leaf is the newest one; generation counts renewals from 1. An audit key is one
-- node's for ever.
CREATE TABLE nodes (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('authority', 'proxy', 'connector')),
    key_sha256 BLOB NOT NULL CHECK (length(key_sha256) = 32),
    audit_key BLOB NOT NULL UNIQUE,
    state TEXT NOT NULL CHECK (state IN ('active', 'revoked')),
    generation INTEGER NOT NULL CHECK (generation >= 1),
    leaf_serial TEXT NOT NULL,
    leaf_key_sha256 BLOB NOT NULL,
    leaf_expires REAL NOT NULL,
    enrolled_at REAL NOT NULL,
    revoked_at REAL,
    last_seen REAL,
    version TEXT NOT NULL
) STRICT;
