-- Every policy text there ever was; the one in force is the greatest activated.
CREATE TABLE policy_versions (
    version INTEGER PRIMARY KEY CHECK (version >= 1),
    text TEXT NOT NULL,
    sha256 BLOB NOT NULL CHECK (length(sha256) = 32),
    author TEXT NOT NULL,
    created_at REAL NOT NULL,
    activated_at REAL
) STRICT;
