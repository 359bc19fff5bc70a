-- A person asks to be let in for a while. What was granted ends by itself.
CREATE TABLE access_requests (
    id TEXT COLLATE "C" PRIMARY KEY,
    person_id TEXT COLLATE "C" NOT NULL REFERENCES persons (id),
    resource_id TEXT COLLATE "C" NOT NULL,
    action TEXT COLLATE "C" NOT NULL,
    reason TEXT COLLATE "C" NOT NULL,
    asked_secs BIGINT NOT NULL CHECK (asked_secs > 0),
    asked_at DOUBLE PRECISION NOT NULL,
    expires_at DOUBLE PRECISION NOT NULL,
    granted_until DOUBLE PRECISION,
    state TEXT COLLATE "C" NOT NULL
        CHECK (state IN ('open', 'granted', 'refused', 'withdrawn', 'expired', 'revoked')),
    CHECK (expires_at > asked_at),
    CHECK ((granted_until IS NOT NULL) = (state IN ('granted', 'revoked')))
);
