-- Who approved or rejected a proposal, once each, by a signature of their own key.
CREATE TABLE policy_approvals (
    proposal_id TEXT NOT NULL REFERENCES policy_proposals (id),
    approver TEXT NOT NULL REFERENCES persons (id),
    decision TEXT NOT NULL CHECK (decision IN ('approve', 'deny')),
    payload BLOB NOT NULL CHECK (length(payload) > 0),
    signature BLOB NOT NULL CHECK (length(signature) > 0),
    certificate BLOB NOT NULL CHECK (length(certificate) > 0),
    decided_at REAL NOT NULL,
    expires_at REAL NOT NULL,
    PRIMARY KEY (proposal_id, approver)
) STRICT, WITHOUT ROWID;
