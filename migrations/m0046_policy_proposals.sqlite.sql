-- A policy text that waits for approvals, and all that an approval signs: what it replaces, under
-- which schema and entities, and what a replay of the log found.
CREATE TABLE policy_proposals (
    id TEXT PRIMARY KEY,
    text TEXT NOT NULL,
    policy_sha256 BLOB NOT NULL CHECK (length(policy_sha256) = 32),
    parent INTEGER NOT NULL REFERENCES policy_versions (version),
    parent_sha256 BLOB NOT NULL CHECK (length(parent_sha256) = 32),
    schema_sha256 BLOB NOT NULL CHECK (length(schema_sha256) = 32),
    entity_revision INTEGER NOT NULL,
    replay BLOB NOT NULL,
    findings BLOB NOT NULL,
    proposer_kind TEXT NOT NULL CHECK (proposer_kind IN ('person', 'operator')),
    proposer TEXT NOT NULL,
    note TEXT NOT NULL,
    proposed_at REAL NOT NULL,
    expires_at REAL NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('open', 'activated', 'rejected', 'withdrawn')),
    version INTEGER REFERENCES policy_versions (version),
    CHECK (expires_at > proposed_at),
    CHECK ((state = 'activated') = (version IS NOT NULL))
) STRICT;
