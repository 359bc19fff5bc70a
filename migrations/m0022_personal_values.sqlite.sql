-- Values a record holds only as salted hashes; a row may be erased, the chain holds.
CREATE TABLE personal_values (
    seq INTEGER NOT NULL REFERENCES audit_log (seq),
    path TEXT NOT NULL,
    salt BLOB NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (seq, path)
) STRICT, WITHOUT ROWID;
