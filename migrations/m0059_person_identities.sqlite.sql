-- Who somebody of an OIDC issuer is here.
CREATE TABLE person_identities (
    id TEXT PRIMARY KEY,
    issuer TEXT NOT NULL,
    subject TEXT NOT NULL,
    person_id TEXT NOT NULL REFERENCES persons (id),
    salt BLOB NOT NULL,
    UNIQUE (issuer, subject)
) STRICT;
