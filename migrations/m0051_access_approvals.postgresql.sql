-- Who agreed to a request, once each, by a signature of their own key.
CREATE TABLE access_approvals (
    request_id TEXT COLLATE "C" NOT NULL REFERENCES access_requests (id),
    approver TEXT COLLATE "C" NOT NULL REFERENCES persons (id),
    certificate_sha256 BYTEA NOT NULL REFERENCES person_certificates (sha256),
    signature BYTEA NOT NULL CHECK (length(signature) > 0),
    approved_at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (request_id, approver)
);
