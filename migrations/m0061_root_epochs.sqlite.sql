-- Roots after the one that the cluster began with. No row is epoch 0: nothing was ever prepared.
CREATE TABLE root_epochs (
    epoch INTEGER PRIMARY KEY CHECK (epoch >= 1),
    certificate_sha256 BLOB NOT NULL CHECK (length(certificate_sha256) = 32),
    material_revision INTEGER NOT NULL CHECK (material_revision >= 1),
    state TEXT NOT NULL CHECK (state IN ('prepared', 'active', 'retired', 'cancelled')),
    prepared_at REAL NOT NULL,
    activated_at REAL,
    CHECK ((activated_at IS NOT NULL) = (state IN ('active', 'retired')))
) STRICT;
