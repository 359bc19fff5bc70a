-- The greatest counter whose code was taken: a code works once. Gone with the secret it is of.
CREATE TABLE sign_in_codes (
    secret_id TEXT COLLATE "C" PRIMARY KEY REFERENCES person_secrets (id) ON DELETE CASCADE,
    counter BIGINT NOT NULL CHECK (counter >= 0)
);
