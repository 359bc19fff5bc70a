-- Every policy text there ever was; the one in force is the greatest activated.
CREATE TABLE policy_versions (
    version BIGINT PRIMARY KEY CHECK (version >= 1),
    text TEXT COLLATE "C" NOT NULL,
    sha256 BYTEA NOT NULL CHECK (length(sha256) = 32),
    author TEXT COLLATE "C" NOT NULL,
    created_at DOUBLE PRECISION NOT NULL,
    activated_at DOUBLE PRECISION
);
