-- A policy text that waits for approvals, and all that an approval signs: what it replaces, under
-- which schema and entities, and what a replay of the log found.
CREATE TABLE policy_proposals (
    id TEXT COLLATE "C" PRIMARY KEY,
    text TEXT COLLATE "C" NOT NULL,
    policy_sha256 BYTEA NOT NULL CHECK (length(policy_sha256) = 32),
    parent BIGINT NOT NULL REFERENCES policy_versions (version),
    parent_sha256 BYTEA NOT NULL CHECK (length(parent_sha256) = 32),
    schema_sha256 BYTEA NOT NULL CHECK (length(schema_sha256) = 32),
    entity_revision BIGINT NOT NULL,
    replay BYTEA NOT NULL,
    findings BYTEA NOT NULL,
    proposer_kind TEXT COLLATE "C" NOT NULL CHECK (proposer_kind IN ('person', 'operator')),
    proposer TEXT COLLATE "C" NOT NULL,
    note TEXT COLLATE "C" NOT NULL,
    proposed_at DOUBLE PRECISION NOT NULL,
    expires_at DOUBLE PRECISION NOT NULL,
    state TEXT COLLATE "C" NOT NULL CHECK (state IN ('open', 'activated', 'rejected', 'withdrawn')),
    version BIGINT REFERENCES policy_versions (version),
    CHECK (expires_at > proposed_at),
    CHECK ((state = 'activated') = (version IS NOT NULL))
);
