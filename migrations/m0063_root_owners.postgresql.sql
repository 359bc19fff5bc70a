-- The Authorities that roots are sealed to, each by a receiver key of its own: one key under two
-- names is a copy of it. Nobody is withdrawn by time. An Authority that was withdrawn before it
-- had a key has none. What it has loaded (key_set) is its own word, and decides nothing. Whose
-- credential an operator let back (is_readmitted) gets no other one before it is withdrawn again.
-- Of an Authority that was certified anew under the same key the former node ids are kept, with a
-- space between two: no other name is retained under one of them.
CREATE TABLE root_owners (
    owner TEXT COLLATE "C" PRIMARY KEY,
    node_id TEXT COLLATE "C" NOT NULL,
    receiver_key BYTEA UNIQUE CHECK (length(receiver_key) = 32),
    sealing_key BYTEA CHECK (length(sealing_key) = 32),
    state TEXT COLLATE "C" NOT NULL CHECK (state IN ('retained', 'withdrawn')),
    since DOUBLE PRECISION NOT NULL,
    key_set BYTEA NOT NULL,
    is_readmitted INTEGER NOT NULL CHECK (is_readmitted IN (0, 1)),
    former_nodes TEXT COLLATE "C" NOT NULL,
    CHECK ((receiver_key IS NULL) = (sealing_key IS NULL)),
    CHECK (receiver_key IS NOT NULL OR state = 'withdrawn'),
    CHECK (is_readmitted = 0 OR state = 'retained')
);
