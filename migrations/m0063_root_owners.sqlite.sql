-- The Authorities that must acknowledge a new root, each by a receiver key of its own: one key
-- under two names is a copy of it. Nobody is withdrawn by time.
CREATE TABLE root_owners (
    owner TEXT PRIMARY KEY,
    node_id TEXT NOT NULL REFERENCES nodes (id),
    receiver_key BLOB NOT NULL UNIQUE CHECK (length(receiver_key) = 32),
    state TEXT NOT NULL CHECK (state IN ('retained', 'withdrawn'))
) STRICT;
