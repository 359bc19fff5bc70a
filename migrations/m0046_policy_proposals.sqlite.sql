-- A version of the policy that waits for somebody's approval, and all that an approval signs:
-- what it replaces, under which schema and entities, and what a replay of history showed.
CREATE TABLE policy_proposals (
    id TEXT PRIMARY KEY,
    version INTEGER NOT NULL UNIQUE REFERENCES policy_versions (version),
    policy_sha256 BLOB NOT NULL CHECK (length(policy_sha256) = 32),
    parent INTEGER NOT NULL REFERENCES policy_versions (version),
    schema_sha256 BLOB NOT NULL CHECK (length(schema_sha256) = 32),
    entity_revision INTEGER NOT NULL,
    replay_sha256 BLOB NOT NULL CHECK (length(replay_sha256) = 32),
    replay_from INTEGER NOT NULL CHECK (replay_from >= 1),
    replay_to INTEGER NOT NULL,
    proposer TEXT NOT NULL,
    note TEXT NOT NULL,
    proposed_at REAL NOT NULL,
    expires_at REAL NOT NULL,
    state TEXT NOT NULL
        CHECK (state IN ('open', 'activated', 'refused', 'withdrawn', 'expired')),
    CHECK (parent < version),
    CHECK (replay_to >= replay_from - 1),
    CHECK (expires_at > proposed_at)
) STRICT;
