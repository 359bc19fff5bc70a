-- A person asks to be let in for a while. What was approved ends by itself.
CREATE TABLE access_requests (
    id TEXT COLLATE "C" PRIMARY KEY,
    person_id TEXT COLLATE "C" NOT NULL REFERENCES persons (id),
    resource_id TEXT COLLATE "C" NOT NULL,
    resource_identity TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    action TEXT COLLATE "C" NOT NULL,
    parameters TEXT COLLATE "C" NOT NULL,
    reason TEXT COLLATE "C" NOT NULL,
    salt BYTEA NOT NULL,
    asked_secs BIGINT NOT NULL CHECK (asked_secs > 0),
    uses BIGINT CHECK (uses > 0),
    used BIGINT NOT NULL CHECK (used >= 0),
    asked_at DOUBLE PRECISION NOT NULL,
    ends_at DOUBLE PRECISION NOT NULL,
    state TEXT COLLATE "C" NOT NULL
        CHECK (state IN ('open', 'approved', 'denied', 'withdrawn')),
    text_sha256 TEXT COLLATE "C" NOT NULL,
    sealed_text BYTEA NOT NULL,
    CHECK (ends_at > asked_at),
    CHECK (uses IS NULL OR used <= uses)
);
