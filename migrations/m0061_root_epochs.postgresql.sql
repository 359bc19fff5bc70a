-- Distribution roots: no row is epoch 0, nothing was ever prepared. A secret is never here.
CREATE TABLE root_epochs (
    epoch BIGINT PRIMARY KEY CHECK (epoch >= 1),
    digest BYTEA NOT NULL CHECK (length(digest) = 32),
    material_revision BIGINT NOT NULL CHECK (material_revision >= 1),
    state TEXT COLLATE "C" NOT NULL CHECK (state IN ('prepared', 'active', 'retired', 'cancelled')),
    prepared_at DOUBLE PRECISION NOT NULL,
    activated_at DOUBLE PRECISION,
    CHECK ((activated_at IS NOT NULL) = (state IN ('active', 'retired')))
);
-- What every Authority signs with, by revision; sealed under a root, or not distributed at all.
CREATE TABLE key_sets (
    revision BIGINT PRIMARY KEY CHECK (revision >= 1),
    digest BYTEA NOT NULL UNIQUE CHECK (length(digest) = 32),
    since DOUBLE PRECISION NOT NULL,
    epoch BIGINT NOT NULL CHECK (epoch >= 0),
    sealed BYTEA NOT NULL,
    CHECK ((epoch > 0) = (length(sealed) > 0))
);
-- Whether rotation of keys and CAs is paused. No row: it is not.
CREATE TABLE rotation_pauses (
    id TEXT COLLATE "C" PRIMARY KEY,
    is_paused INTEGER NOT NULL CHECK (is_paused IN (0, 1)),
    since DOUBLE PRECISION NOT NULL,
    by TEXT COLLATE "C" NOT NULL,
    reason TEXT COLLATE "C" NOT NULL
);
