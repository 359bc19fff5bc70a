-- An owner's word that it has a root, once each; kept before anybody is told of it.
CREATE TABLE root_acks (
    epoch BIGINT NOT NULL REFERENCES root_epochs (epoch),
    owner TEXT COLLATE "C" NOT NULL REFERENCES root_owners (owner),
    digest BYTEA NOT NULL CHECK (length(digest) = 32),
    signature BYTEA NOT NULL CHECK (length(signature) > 0),
    acked_at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (epoch, owner)
);
