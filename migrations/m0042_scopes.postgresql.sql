-- What discovery may publish.  Words are separated by spaces, labels are a JSON object.
-- Where SSH is among the kinds, somebody has chosen how its targets are signed on to (G-CFG-14).
CREATE TABLE scopes (
    name TEXT COLLATE "C" PRIMARY KEY,
    kinds TEXT COLLATE "C" NOT NULL CHECK (kinds <> ''),
    onward_auth TEXT COLLATE "C" NOT NULL,
    connectors TEXT COLLATE "C" NOT NULL,
    id_prefix TEXT COLLATE "C" NOT NULL,
    match_labels TEXT COLLATE "C" NOT NULL,
    labels TEXT COLLATE "C" NOT NULL,
    origin TEXT COLLATE "C" NOT NULL CHECK (origin IN ('config', 'operator')),
    revision BIGINT NOT NULL CHECK (revision >= 1),
    set_at DOUBLE PRECISION NOT NULL,
    set_by TEXT COLLATE "C" NOT NULL,
    CHECK (' ' || kinds || ' ' NOT LIKE '% ssh %' OR onward_auth <> '')
);
