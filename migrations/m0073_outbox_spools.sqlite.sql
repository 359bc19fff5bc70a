-- What is known of each spool: which of its rows were accepted, and where one is missing.
CREATE TABLE outbox_spools (
    origin TEXT NOT NULL,
    spool_id TEXT NOT NULL,
    high INTEGER NOT NULL,
    top BLOB,
    holes TEXT NOT NULL,
    closed INTEGER,
    lost INTEGER NOT NULL,
    given_up INTEGER,
    holed_since REAL,
    PRIMARY KEY (origin, spool_id)
) STRICT, WITHOUT ROWID;
