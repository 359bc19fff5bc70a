-- What one other person decided about a request, by a signature of their own key.
CREATE TABLE access_approvals (
    request_id TEXT COLLATE "C" PRIMARY KEY REFERENCES access_requests (id),
    approver TEXT COLLATE "C" NOT NULL REFERENCES persons (id),
    certificate_sha256 BYTEA NOT NULL REFERENCES person_certificates (sha256),
    payload BYTEA NOT NULL CHECK (length(payload) > 0),
    signature BYTEA NOT NULL CHECK (length(signature) > 0),
    certificate BYTEA NOT NULL CHECK (length(certificate) > 0),
    decided_at DOUBLE PRECISION NOT NULL,
    ends_at DOUBLE PRECISION NOT NULL
);
