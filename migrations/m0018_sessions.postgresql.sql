-- Sessions, open and ended. A uid is used once: a second one is a replayed request.
CREATE TABLE sessions (
    uid TEXT COLLATE "C" PRIMARY KEY,
    person_id TEXT COLLATE "C" NOT NULL,
    resource_id TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    connector_id TEXT COLLATE "C" NOT NULL,
    proxy_id TEXT COLLATE "C" NOT NULL,
    decision_id TEXT COLLATE "C" NOT NULL,
    started_at DOUBLE PRECISION NOT NULL,
    state TEXT COLLATE "C" NOT NULL CHECK (state IN ('open', 'ended', 'abandoned')),
    ended_at DOUBLE PRECISION,
    end_reason TEXT COLLATE "C" NOT NULL,
    bytes_up BIGINT NOT NULL,
    bytes_down BIGINT NOT NULL
);
