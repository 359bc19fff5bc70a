-- Roots after the one that the cluster began with. No row is epoch 0: nothing was ever prepared.
CREATE TABLE root_epochs (
    epoch BIGINT PRIMARY KEY CHECK (epoch >= 1),
    certificate_sha256 BYTEA NOT NULL CHECK (length(certificate_sha256) = 32),
    material_revision BIGINT NOT NULL CHECK (material_revision >= 1),
    state TEXT COLLATE "C" NOT NULL CHECK (state IN ('prepared', 'active', 'retired', 'cancelled')),
    prepared_at DOUBLE PRECISION NOT NULL,
    activated_at DOUBLE PRECISION,
    CHECK ((activated_at IS NOT NULL) = (state IN ('active', 'retired')))
);
