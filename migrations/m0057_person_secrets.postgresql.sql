-- What a person signs in with: the hash of a password (Argon2id), a sealed TOTP secret.
CREATE TABLE person_secrets (
    person_id TEXT COLLATE "C" NOT NULL REFERENCES persons (id),
    kind TEXT COLLATE "C" NOT NULL CHECK (kind IN ('password', 'totp')),
    sealed BYTEA NOT NULL CHECK (length(sealed) > 0),
    added_at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (person_id, kind)
);
