-- The index of recordings, which lie elsewhere, sealed. Unconfirmed, nobody knows yet whether one
-- is in its place.
CREATE TABLE recordings (
    session_uid TEXT COLLATE "C" PRIMARY KEY REFERENCES sessions (uid),
    kind TEXT COLLATE "C" NOT NULL,
    format TEXT COLLATE "C" NOT NULL,
    sha256 BYTEA NOT NULL CHECK (length(sha256) = 32),
    bytes BIGINT NOT NULL CHECK (bytes >= 0),
    sealed_to TEXT COLLATE "C" NOT NULL,
    place TEXT COLLATE "C" NOT NULL,
    confirmed_at DOUBLE PRECISION
);
