-- A person asks to be let in for a while. What was granted ends by itself.
CREATE TABLE access_requests (
    id TEXT PRIMARY KEY,
    person_id TEXT NOT NULL REFERENCES persons (id),
    resource_id TEXT NOT NULL,
    action TEXT NOT NULL,
    reason TEXT NOT NULL,
    asked_secs INTEGER NOT NULL CHECK (asked_secs > 0),
    asked_at REAL NOT NULL,
    expires_at REAL NOT NULL,
    granted_until REAL,
    state TEXT NOT NULL
        CHECK (state IN ('open', 'granted', 'refused', 'withdrawn', 'expired', 'revoked')),
    CHECK (expires_at > asked_at),
    CHECK ((granted_until IS NOT NULL) = (state IN ('granted', 'revoked')))
) STRICT;
