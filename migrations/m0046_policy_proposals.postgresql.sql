-- A version of the policy that waits for somebody's approval, and all that an approval signs:
-- what it replaces, under which schema and entities, and what a replay of history showed.
CREATE TABLE policy_proposals (
    id TEXT COLLATE "C" PRIMARY KEY,
    version BIGINT NOT NULL UNIQUE REFERENCES policy_versions (version),
    policy_sha256 BYTEA NOT NULL CHECK (length(policy_sha256) = 32),
    parent BIGINT NOT NULL REFERENCES policy_versions (version),
    schema_sha256 BYTEA NOT NULL CHECK (length(schema_sha256) = 32),
    entity_revision BIGINT NOT NULL,
    replay_sha256 BYTEA NOT NULL CHECK (length(replay_sha256) = 32),
    replay_from BIGINT NOT NULL CHECK (replay_from >= 1),
    replay_to BIGINT NOT NULL,
    proposer TEXT COLLATE "C" NOT NULL,
    note TEXT COLLATE "C" NOT NULL,
    proposed_at DOUBLE PRECISION NOT NULL,
    expires_at DOUBLE PRECISION NOT NULL,
    state TEXT COLLATE "C" NOT NULL
        CHECK (state IN ('open', 'activated', 'refused', 'withdrawn', 'expired')),
    CHECK (parent < version),
    CHECK (replay_to >= replay_from - 1),
    CHECK (expires_at > proposed_at)
);
