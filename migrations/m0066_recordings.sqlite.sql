-- The index of recordings, which lie elsewhere, sealed. Unconfirmed, nobody knows yet whether one
-- is in its place.
CREATE TABLE recordings (
    session_uid TEXT PRIMARY KEY REFERENCES sessions (uid),
    kind TEXT NOT NULL,
    format TEXT NOT NULL,
    sha256 BLOB NOT NULL CHECK (length(sha256) = 32),
    bytes INTEGER NOT NULL CHECK (bytes >= 0),
    sealed_to TEXT NOT NULL,
    place TEXT NOT NULL,
    confirmed_at REAL
) STRICT;
