-- Sign-ins of people at an OIDC issuer: which certificate is the newest, by what it is renewed.
CREATE TABLE sign_ins (
    id TEXT PRIMARY KEY,
    identity_id TEXT NOT NULL REFERENCES person_identities (id),
    person_id TEXT NOT NULL REFERENCES persons (id),
    auth_time REAL NOT NULL,
    began_at REAL NOT NULL,
    ends_at REAL NOT NULL,
    certificate_sha256 BLOB NOT NULL UNIQUE CHECK (length(certificate_sha256) = 32),
    key_sha256 BLOB NOT NULL CHECK (length(key_sha256) = 32),
    generation INTEGER NOT NULL CHECK (generation > 0),
    refresh BLOB NOT NULL,
    ended_at REAL
) STRICT;

-- Which sign-in a certificate came by: it is revoked with that. Empty: by none.
ALTER TABLE person_certificates ADD COLUMN sign_in_id TEXT NOT NULL DEFAULT '';

-- Whether it was revoked only because its holder signed out: what it approved before stands.
ALTER TABLE person_certificates ADD COLUMN signed_out INTEGER NOT NULL DEFAULT 0 CHECK (signed_out IN (0, 1));
