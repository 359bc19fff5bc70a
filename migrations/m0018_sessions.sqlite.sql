-- Sessions, open and ended. A uid is used once: a second one is a replayed request.
CREATE TABLE sessions (
    uid TEXT PRIMARY KEY,
    person_id TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    connector_id TEXT NOT NULL,
    proxy_id TEXT NOT NULL,
    decision_id TEXT NOT NULL,
    started_at REAL NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('open', 'ended', 'abandoned')),
    ended_at REAL,
    end_reason TEXT NOT NULL,
    bytes_up INTEGER NOT NULL,
    bytes_down INTEGER NOT NULL
) STRICT;
