-- Values a record holds only as salted hashes; a row may be erased, the chain holds.
CREATE TABLE personal_values (
    seq BIGINT NOT NULL REFERENCES audit_log (seq),
    path TEXT COLLATE "C" NOT NULL,
    salt BYTEA NOT NULL,
    value TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (seq, path)
);
