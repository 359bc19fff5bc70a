-- Certificates of issuing authorities and purpose keys. Private keys are never here.
CREATE TABLE key_revisions (
    kind TEXT NOT NULL,
    revision INTEGER NOT NULL CHECK (revision >= 1),
    certificate TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('prepared', 'active', 'retired')),
    since REAL NOT NULL,
    PRIMARY KEY (kind, revision)
) STRICT, WITHOUT ROWID;
