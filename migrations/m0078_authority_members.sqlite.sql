-- The Authorities on this store: each counts signs of life in a row of its own. It says who
-- is there and nothing about what they may do; what stands here is no proof of anything.
CREATE TABLE authority_members (
    owner TEXT PRIMARY KEY,
    node_id TEXT NOT NULL,
    beats INTEGER NOT NULL CHECK (beats >= 0)
) STRICT;
