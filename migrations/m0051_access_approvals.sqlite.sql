-- What one other person decided about a request, by a signature of their own key.
CREATE TABLE access_approvals (
    request_id TEXT PRIMARY KEY REFERENCES access_requests (id),
    approver TEXT NOT NULL REFERENCES persons (id),
    certificate_sha256 BLOB NOT NULL REFERENCES person_certificates (sha256),
    payload BLOB NOT NULL CHECK (length(payload) > 0),
    signature BLOB NOT NULL CHECK (length(signature) > 0),
    certificate BLOB NOT NULL CHECK (length(certificate) > 0),
    decided_at REAL NOT NULL,
    ends_at REAL NOT NULL
) STRICT, WITHOUT ROWID;
