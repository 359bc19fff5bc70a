-- What discovery may publish; kinds and ways to sign on at the target are separated by spaces.
-- Where SSH is among the kinds, somebody has chosen how (G-CFG-14).
CREATE TABLE scopes (
    name TEXT COLLATE "C" PRIMARY KEY,
    kinds TEXT COLLATE "C" NOT NULL CHECK (kinds <> ''),
    onward_auth TEXT COLLATE "C" NOT NULL,
    revision BIGINT NOT NULL CHECK (revision >= 1),
    set_at DOUBLE PRECISION NOT NULL,
    set_by TEXT COLLATE "C" NOT NULL,
    CHECK (' ' || kinds || ' ' NOT LIKE '% ssh %' OR onward_auth <> '')
);
