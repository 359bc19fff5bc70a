-- Who approved a proposal, once each, by a signature of their own key over all of its digests.
CREATE TABLE policy_approvals (
    proposal_id TEXT COLLATE "C" NOT NULL REFERENCES policy_proposals (id),
    approver TEXT COLLATE "C" NOT NULL REFERENCES persons (id),
    certificate_sha256 BYTEA NOT NULL REFERENCES person_certificates (sha256),
    signature BYTEA NOT NULL CHECK (length(signature) > 0),
    approved_at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (proposal_id, approver)
);
