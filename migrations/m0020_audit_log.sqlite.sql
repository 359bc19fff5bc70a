-- The hash chain. The record is kept once, as its canonical text; what one searches
-- for is derived from that text, so a column can never say other than the record.
CREATE TABLE audit_log (
    seq INTEGER PRIMARY KEY CHECK (seq >= 1),
    prev_hash BLOB NOT NULL CHECK (length(prev_hash) = 32),
    hash BLOB NOT NULL CHECK (length(hash) = 32),
    canonical TEXT NOT NULL,
    event TEXT GENERATED ALWAYS AS (json_extract(canonical, '$.event')) VIRTUAL,
    time TEXT GENERATED ALWAYS AS (json_extract(canonical, '$.time')) VIRTUAL,
    actor_id TEXT GENERATED ALWAYS AS (json_extract(canonical, '$.actor.id')) VIRTUAL,
    decision_id TEXT GENERATED ALWAYS AS (json_extract(canonical, '$.decision_id')) VIRTUAL,
    session_uid TEXT GENERATED ALWAYS AS (json_extract(canonical, '$.session_uid')) VIRTUAL
) STRICT;
