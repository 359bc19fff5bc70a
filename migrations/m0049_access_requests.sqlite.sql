-- A person asks to be let in for a while. What was approved ends by itself.
CREATE TABLE access_requests (
    id TEXT PRIMARY KEY,
    person_id TEXT NOT NULL REFERENCES persons (id),
    resource_id TEXT NOT NULL,
    resource_identity TEXT NOT NULL,
    kind TEXT NOT NULL,
    action TEXT NOT NULL,
    parameters TEXT NOT NULL,
    reason TEXT NOT NULL,
    salt BLOB NOT NULL,
    asked_secs INTEGER NOT NULL CHECK (asked_secs > 0),
    uses INTEGER CHECK (uses > 0),
    used INTEGER NOT NULL CHECK (used >= 0),
    asked_at REAL NOT NULL,
    ends_at REAL NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('open', 'approved', 'denied', 'withdrawn')),
    text_sha256 TEXT NOT NULL,
    sealed_text BLOB NOT NULL,
    CHECK (ends_at > asked_at),
    CHECK (uses IS NULL OR used <= uses)
) STRICT;
