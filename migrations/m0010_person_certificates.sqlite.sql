-- Certificates issued to persons, by the hash that a signed request names.
CREATE TABLE person_certificates (
    sha256 BLOB PRIMARY KEY CHECK (length(sha256) = 32),
    serial TEXT NOT NULL UNIQUE,
    person_id TEXT NOT NULL REFERENCES persons (id),
    issued_at REAL NOT NULL,
    expires REAL NOT NULL,
    revoked_at REAL
) STRICT;
