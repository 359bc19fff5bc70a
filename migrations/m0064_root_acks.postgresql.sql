-- What each owner was given of a root, and its word that it has it, once each; kept before
-- anybody is told of it.
CREATE TABLE root_acks (
    epoch BIGINT NOT NULL REFERENCES root_epochs (epoch),
    owner TEXT COLLATE "C" NOT NULL REFERENCES root_owners (owner),
    share BYTEA NOT NULL CHECK (length(share) > 0),
    signature BYTEA CHECK (length(signature) > 0),
    acked_at DOUBLE PRECISION,
    PRIMARY KEY (epoch, owner),
    CHECK ((signature IS NULL) = (acked_at IS NULL))
);
