-- What a person signs in with: the hash of a password (Argon2id), a sealed TOTP secret.
CREATE TABLE person_secrets (
    person_id TEXT NOT NULL REFERENCES persons (id),
    kind TEXT NOT NULL CHECK (kind IN ('password', 'totp')),
    sealed BLOB NOT NULL CHECK (length(sealed) > 0),
    added_at REAL NOT NULL,
    PRIMARY KEY (person_id, kind)
) STRICT, WITHOUT ROWID;
