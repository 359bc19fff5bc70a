-- Who approved a proposal, once each, by a signature of their own key over all of its digests.
CREATE TABLE policy_approvals (
    proposal_id TEXT NOT NULL REFERENCES policy_proposals (id),
    approver TEXT NOT NULL REFERENCES persons (id),
    certificate_sha256 BLOB NOT NULL REFERENCES person_certificates (sha256),
    signature BLOB NOT NULL CHECK (length(signature) > 0),
    approved_at REAL NOT NULL,
    PRIMARY KEY (proposal_id, approver)
) STRICT, WITHOUT ROWID;
