-- What each owner was given of a root, and its word that it has it, once each; kept before
-- anybody is told of it.
CREATE TABLE root_acks (
    epoch INTEGER NOT NULL REFERENCES root_epochs (epoch),
    owner TEXT NOT NULL REFERENCES root_owners (owner),
    share BLOB NOT NULL CHECK (length(share) > 0),
    signature BLOB CHECK (length(signature) > 0),
    acked_at REAL,
    PRIMARY KEY (epoch, owner),
    CHECK ((signature IS NULL) = (acked_at IS NULL))
) STRICT, WITHOUT ROWID;
