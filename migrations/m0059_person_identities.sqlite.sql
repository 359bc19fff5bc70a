-- Who somebody of an OIDC issuer is here.
CREATE TABLE person_identities (
    issuer TEXT NOT NULL,
    subject TEXT NOT NULL,
    person_id TEXT NOT NULL REFERENCES persons (id),
    PRIMARY KEY (issuer, subject)
) STRICT, WITHOUT ROWID;
