-- The hash chain. The record is kept once, as its canonical text; what one searches
-- for is derived from that text, so a column can never say other than the record.
-- PostgreSQL takes no JSON text apart that holds the escape of NUL, which a record may hold:
-- there the columns are derived from the text with that escape replaced (a doubled backslash
-- before u0000 is no such escape).
CREATE TABLE audit_log (
    seq BIGINT PRIMARY KEY CHECK (seq >= 1),
    prev_hash BYTEA NOT NULL CHECK (length(prev_hash) = 32),
    hash BYTEA NOT NULL CHECK (length(hash) = 32),
    canonical TEXT COLLATE "C" NOT NULL,
    event TEXT COLLATE "C" GENERATED ALWAYS AS ((CASE
        WHEN strpos(canonical, '\u0000') = 0 THEN canonical
        ELSE regexp_replace(canonical, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g')
        END)::json ->> 'event') STORED,
    time TEXT COLLATE "C" GENERATED ALWAYS AS ((CASE
        WHEN strpos(canonical, '\u0000') = 0 THEN canonical
        ELSE regexp_replace(canonical, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g')
        END)::json ->> 'time') STORED,
    actor_id TEXT COLLATE "C" GENERATED ALWAYS AS ((CASE
        WHEN strpos(canonical, '\u0000') = 0 THEN canonical
        ELSE regexp_replace(canonical, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g')
        END)::json #>> '{actor,id}') STORED,
    decision_id TEXT COLLATE "C" GENERATED ALWAYS AS ((CASE
        WHEN strpos(canonical, '\u0000') = 0 THEN canonical
        ELSE regexp_replace(canonical, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g')
        END)::json ->> 'decision_id') STORED,
    session_uid TEXT COLLATE "C" GENERATED ALWAYS AS ((CASE
        WHEN strpos(canonical, '\u0000') = 0 THEN canonical
        ELSE regexp_replace(canonical, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g')
        END)::json ->> 'session_uid') STORED
);
