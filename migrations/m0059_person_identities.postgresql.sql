-- Who somebody of an OIDC issuer is here.
CREATE TABLE person_identities (
    issuer TEXT COLLATE "C" NOT NULL,
    subject TEXT COLLATE "C" NOT NULL,
    person_id TEXT COLLATE "C" NOT NULL REFERENCES persons (id),
    PRIMARY KEY (issuer, subject)
);
