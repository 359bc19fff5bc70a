-- What discovery may publish; kinds and ways to sign on at the target are separated by spaces.
-- Where SSH is among the kinds, somebody has chosen how (G-CFG-14).
CREATE TABLE scopes (
    name TEXT PRIMARY KEY,
    kinds TEXT NOT NULL CHECK (kinds <> ''),
    onward_auth TEXT NOT NULL,
    revision INTEGER NOT NULL CHECK (revision >= 1),
    set_at REAL NOT NULL,
    set_by TEXT NOT NULL,
    CHECK (' ' || kinds || ' ' NOT LIKE '% ssh %' OR onward_auth <> '')
) STRICT;
