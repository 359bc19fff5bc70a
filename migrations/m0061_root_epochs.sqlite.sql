-- Distribution roots: no row is epoch 0, nothing was ever prepared. A secret is never here.
CREATE TABLE root_epochs (
    epoch INTEGER PRIMARY KEY CHECK (epoch >= 1),
    digest BLOB NOT NULL CHECK (length(digest) = 32),
    material_revision INTEGER NOT NULL CHECK (material_revision >= 1),
    state TEXT NOT NULL CHECK (state IN ('prepared', 'active', 'retired', 'cancelled')),
    prepared_at REAL NOT NULL,
    activated_at REAL,
    CHECK ((activated_at IS NOT NULL) = (state IN ('active', 'retired')))
) STRICT;
-- What every Authority signs with, by revision; sealed under a root, or not distributed at all.
CREATE TABLE key_sets (
    revision INTEGER PRIMARY KEY CHECK (revision >= 1),
    digest BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
    since REAL NOT NULL,
    epoch INTEGER NOT NULL CHECK (epoch >= 0),
    sealed BLOB NOT NULL,
    CHECK ((epoch > 0) = (length(sealed) > 0))
) STRICT;
-- Whether rotation of keys and CAs is paused. No row: it is not.
CREATE TABLE rotation_pauses (
    id TEXT PRIMARY KEY,
    is_paused INTEGER NOT NULL CHECK (is_paused IN (0, 1)),
    since REAL NOT NULL,
    by TEXT NOT NULL,
    reason TEXT NOT NULL
) STRICT;
