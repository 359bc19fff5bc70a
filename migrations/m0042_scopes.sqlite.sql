-- What discovery may publish.  Words are separated by spaces, labels are a JSON object.
-- Where SSH is among the kinds, somebody has chosen how its targets are signed on to (G-CFG-14).
CREATE TABLE scopes (
    name TEXT PRIMARY KEY,
    kinds TEXT NOT NULL CHECK (kinds <> ''),
    onward_auth TEXT NOT NULL,
    connectors TEXT NOT NULL,
    id_prefix TEXT NOT NULL,
    match_labels TEXT NOT NULL,
    labels TEXT NOT NULL,
    origin TEXT NOT NULL CHECK (origin IN ('config', 'operator')),
    revision INTEGER NOT NULL CHECK (revision >= 1),
    set_at REAL NOT NULL,
    set_by TEXT NOT NULL,
    CHECK (' ' || kinds || ' ' NOT LIKE '% ssh %' OR onward_auth <> '')
) STRICT;
