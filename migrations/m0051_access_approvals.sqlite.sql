-- Who agreed to a request, once each, by a signature of their own key.
CREATE TABLE access_approvals (
    request_id TEXT NOT NULL REFERENCES access_requests (id),
    approver TEXT NOT NULL REFERENCES persons (id),
    certificate_sha256 BLOB NOT NULL REFERENCES person_certificates (sha256),
    signature BLOB NOT NULL CHECK (length(signature) > 0),
    approved_at REAL NOT NULL,
    PRIMARY KEY (request_id, approver)
) STRICT, WITHOUT ROWID;
