-- Who approved or rejected a proposal, once each, by a signature of their own key.
CREATE TABLE policy_approvals (
    proposal_id TEXT COLLATE "C" NOT NULL REFERENCES policy_proposals (id),
    approver TEXT COLLATE "C" NOT NULL REFERENCES persons (id),
    decision TEXT COLLATE "C" NOT NULL CHECK (decision IN ('approve', 'deny')),
    payload BYTEA NOT NULL CHECK (length(payload) > 0),
    signature BYTEA NOT NULL CHECK (length(signature) > 0),
    certificate BYTEA NOT NULL CHECK (length(certificate) > 0),
    decided_at DOUBLE PRECISION NOT NULL,
    expires_at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (proposal_id, approver)
);
