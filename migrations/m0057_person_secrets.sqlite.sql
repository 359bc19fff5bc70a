-- What a person without a provider signs in by; sealed with a key that is not in the store.
CREATE TABLE person_secrets (
    id TEXT NOT NULL UNIQUE,
    person_id TEXT NOT NULL REFERENCES persons (id),
    kind TEXT NOT NULL CHECK (kind IN ('enrollment', 'password', 'totp', 'key', 'passkey', 'recovery')),
    sealed BLOB NOT NULL CHECK (length(sealed) > 0),
    added_at REAL NOT NULL,
    expires_at REAL,
    PRIMARY KEY (person_id, id)
) STRICT, WITHOUT ROWID;
