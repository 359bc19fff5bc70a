-- Sign-ins of people at an OIDC issuer: which certificate is the newest, by what it is renewed.
CREATE TABLE sign_ins (
    id TEXT COLLATE "C" PRIMARY KEY,
    identity_id TEXT COLLATE "C" NOT NULL REFERENCES person_identities (id),
    person_id TEXT COLLATE "C" NOT NULL REFERENCES persons (id),
    auth_time DOUBLE PRECISION NOT NULL,
    began_at DOUBLE PRECISION NOT NULL,
    ends_at DOUBLE PRECISION NOT NULL,
    certificate_sha256 BYTEA NOT NULL UNIQUE CHECK (length(certificate_sha256) = 32),
    key_sha256 BYTEA NOT NULL CHECK (length(key_sha256) = 32),
    generation BIGINT NOT NULL CHECK (generation > 0),
    refresh BYTEA NOT NULL,
    ended_at DOUBLE PRECISION
);

-- Which sign-in a certificate came by: it is revoked with that. Empty: by none.
ALTER TABLE person_certificates ADD COLUMN sign_in_id TEXT COLLATE "C" NOT NULL DEFAULT '';

-- Whether it was revoked only because its holder signed out: what it approved before stands.
ALTER TABLE person_certificates ADD COLUMN signed_out INTEGER NOT NULL DEFAULT 0 CHECK (signed_out IN (0, 1));
