-- One-use rights to join; of the secret only its hash.
CREATE TABLE join_tokens (
    id TEXT COLLATE "C" PRIMARY KEY,
    secret_sha256 BYTEA NOT NULL CHECK (length(secret_sha256) = 32),
    role TEXT COLLATE "C" NOT NULL CHECK (role IN ('authority', 'proxy', 'connector', 'person', 'agent')),
    bound_to TEXT COLLATE "C",
    added_at DOUBLE PRECISION NOT NULL,
    expires_at DOUBLE PRECISION NOT NULL,
    spent_at DOUBLE PRECISION
);
