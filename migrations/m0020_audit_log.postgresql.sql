-- The hash chain. The record is kept once, as its canonical text; what one searches
-- for is derived from that text, so a column can never say other than the record.
-- PostgreSQL refuses to take apart a JSON text that holds \u0000, which a record may; so
-- the columns are derived from the text with that escape replaced.
CREATE TABLE audit_log (
    seq BIGINT PRIMARY KEY CHECK (seq >= 1),
    prev_hash BYTEA NOT NULL CHECK (length(prev_hash) = 32),
    hash BYTEA NOT NULL CHECK (length(hash) = 32),
    canonical TEXT COLLATE "C" NOT NULL,
    event TEXT COLLATE "C" GENERATED ALWAYS AS
        (replace(canonical, '\u0000', '\ufffd')::json ->> 'event') STORED,
    time TEXT COLLATE "C" GENERATED ALWAYS AS
        (replace(canonical, '\u0000', '\ufffd')::json ->> 'time') STORED,
    actor_id TEXT COLLATE "C" GENERATED ALWAYS AS
        (replace(canonical, '\u0000', '\ufffd')::json #>> '{actor,id}') STORED,
    decision_id TEXT COLLATE "C" GENERATED ALWAYS AS
        (replace(canonical, '\u0000', '\ufffd')::json ->> 'decision_id') STORED,
    session_uid TEXT COLLATE "C" GENERATED ALWAYS AS
        (replace(canonical, '\u0000', '\ufffd')::json ->> 'session_uid') STORED
);
