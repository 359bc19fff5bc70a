-- The number of each issuing CA's newest revocation list; the next one is greater.
CREATE TABLE crl_numbers (
    kind TEXT COLLATE "C" PRIMARY KEY,
    number BIGINT NOT NULL CHECK (number >= 1),
    issued_at DOUBLE PRECISION NOT NULL
);
