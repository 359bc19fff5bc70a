-- Certificates issued to persons, by the hash that a signed request names.
CREATE TABLE person_certificates (
    sha256 BYTEA PRIMARY KEY CHECK (length(sha256) = 32),
    serial TEXT COLLATE "C" NOT NULL UNIQUE,
    person_id TEXT COLLATE "C" NOT NULL REFERENCES persons (id),
    issued_at DOUBLE PRECISION NOT NULL,
    expires DOUBLE PRECISION NOT NULL,
    revoked_at DOUBLE PRECISION
);
