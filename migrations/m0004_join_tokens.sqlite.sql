-- One-use rights to join; of the secret only its hash.
CREATE TABLE join_tokens (
    id TEXT PRIMARY KEY,
    secret_sha256 BLOB NOT NULL CHECK (length(secret_sha256) = 32),
    role TEXT NOT NULL CHECK (role IN ('authority', 'proxy', 'connector', 'person', 'agent')),
    bound_to TEXT,
    added_at REAL NOT NULL,
    expires_at REAL NOT NULL,
    spent_at REAL
) STRICT;
