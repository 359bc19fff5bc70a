-- What a person without a provider signs in by; sealed with a key that is not in the store.
CREATE TABLE person_secrets (
    id TEXT COLLATE "C" NOT NULL UNIQUE,
    person_id TEXT COLLATE "C" NOT NULL REFERENCES persons (id),
    kind TEXT COLLATE "C" NOT NULL CHECK (kind IN ('enrollment', 'password', 'totp', 'key', 'passkey', 'recovery')),
    sealed BYTEA NOT NULL CHECK (length(sealed) > 0),
    added_at DOUBLE PRECISION NOT NULL,
    expires_at DOUBLE PRECISION,
    PRIMARY KEY (person_id, id)
);
