-- Keys that may join once each, without a token; only their digests.
CREATE TABLE bootstrap_identities (
    id TEXT PRIMARY KEY,
    role TEXT NOT NULL CHECK (role IN ('proxy', 'connector')),
    name TEXT NOT NULL,
    public_names TEXT NOT NULL DEFAULT '',
    key_sha256 BLOB NOT NULL UNIQUE CHECK (length(key_sha256) = 32),
    issuer TEXT NOT NULL,
    created_at REAL NOT NULL,
    expires_at REAL NOT NULL,
    used_at REAL
) STRICT, WITHOUT ROWID;
