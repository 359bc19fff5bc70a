-- The greatest counter whose code was taken: a code works once. Gone with the secret it is of.
CREATE TABLE sign_in_codes (
    person_id TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    counter BIGINT NOT NULL CHECK (counter >= 0),
    PRIMARY KEY (person_id, kind),
    FOREIGN KEY (person_id, kind) REFERENCES person_secrets (person_id, kind) ON DELETE CASCADE
);
