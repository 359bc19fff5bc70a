-- What is known of each spool: which of its rows were accepted, and where one is missing.
CREATE TABLE outbox_spools (
    origin TEXT COLLATE "C" NOT NULL,
    spool_id TEXT COLLATE "C" NOT NULL,
    high BIGINT NOT NULL,
    top BYTEA,
    holes TEXT COLLATE "C" NOT NULL,
    closed BIGINT,
    lost BIGINT NOT NULL,
    given_up BIGINT,
    holed_since DOUBLE PRECISION,
    PRIMARY KEY (origin, spool_id)
);
