-- An owner's word that it has a root, once each; kept before anybody is told of it.
CREATE TABLE root_acks (
    epoch INTEGER NOT NULL REFERENCES root_epochs (epoch),
    owner TEXT NOT NULL REFERENCES root_owners (owner),
    digest BLOB NOT NULL CHECK (length(digest) = 32),
    signature BLOB NOT NULL CHECK (length(signature) > 0),
    acked_at REAL NOT NULL,
    PRIMARY KEY (epoch, owner)
) STRICT, WITHOUT ROWID;
