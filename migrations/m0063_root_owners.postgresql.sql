-- The Authorities that must acknowledge a new root, each by a receiver key of its own: one key
-- under two names is a copy of it. Nobody is withdrawn by time.
CREATE TABLE root_owners (
    owner TEXT COLLATE "C" PRIMARY KEY,
    node_id TEXT COLLATE "C" NOT NULL REFERENCES nodes (id),
    receiver_key BYTEA NOT NULL UNIQUE CHECK (length(receiver_key) = 32),
    state TEXT COLLATE "C" NOT NULL CHECK (state IN ('retained', 'withdrawn'))
);
