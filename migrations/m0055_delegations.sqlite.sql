-- An agent may do these actions (separated by spaces) in the name of a person, for a while.
CREATE TABLE delegations (
    id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL REFERENCES agents (id),
    person_id TEXT NOT NULL REFERENCES persons (id),
    actions TEXT NOT NULL CHECK (actions <> ''),
    added_at REAL NOT NULL,
    expires_at REAL NOT NULL,
    revoked_at REAL,
    CHECK (expires_at > added_at)
) STRICT;
