-- Keys that may join once each, without a token; only their digests.
CREATE TABLE bootstrap_identities (
    id TEXT COLLATE "C" PRIMARY KEY,
    role TEXT COLLATE "C" NOT NULL CHECK (role IN ('proxy', 'connector')),
    name TEXT COLLATE "C" NOT NULL,
    public_names TEXT COLLATE "C" NOT NULL DEFAULT '',
    key_sha256 BYTEA NOT NULL UNIQUE CHECK (length(key_sha256) = 32),
    issuer TEXT COLLATE "C" NOT NULL,
    created_at DOUBLE PRECISION NOT NULL,
    expires_at DOUBLE PRECISION NOT NULL,
    used_at DOUBLE PRECISION
);
