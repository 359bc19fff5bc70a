-- Who somebody of an OIDC issuer is here.
CREATE TABLE person_identities (
    id TEXT COLLATE "C" PRIMARY KEY,
    issuer TEXT COLLATE "C" NOT NULL,
    subject TEXT COLLATE "C" NOT NULL,
    person_id TEXT COLLATE "C" NOT NULL REFERENCES persons (id),
    salt BYTEA NOT NULL,
    UNIQUE (issuer, subject)
);
