-- An agent may do these actions (separated by spaces) in the name of a person, for a while.
CREATE TABLE delegations (
    id TEXT COLLATE "C" PRIMARY KEY,
    agent_id TEXT COLLATE "C" NOT NULL REFERENCES agents (id),
    person_id TEXT COLLATE "C" NOT NULL REFERENCES persons (id),
    actions TEXT COLLATE "C" NOT NULL CHECK (actions <> ''),
    added_at DOUBLE PRECISION NOT NULL,
    expires_at DOUBLE PRECISION NOT NULL,
    revoked_at DOUBLE PRECISION,
    CHECK (expires_at > added_at)
);
