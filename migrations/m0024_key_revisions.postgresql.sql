-- Certificates of issuing authorities and purpose keys. Private keys are never here.
CREATE TABLE key_revisions (
    kind TEXT COLLATE "C" NOT NULL,
    revision BIGINT NOT NULL CHECK (revision >= 1),
    certificate TEXT COLLATE "C" NOT NULL,
    state TEXT COLLATE "C" NOT NULL CHECK (state IN ('prepared', 'active', 'retired')),
    since DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (kind, revision)
);
