-- The catalog: what exists and who may serve it. Addresses stay with the Connector.
CREATE TABLE resources (
    id TEXT COLLATE "C" PRIMARY KEY,
    kind TEXT COLLATE "C" NOT NULL,
    assigned_to TEXT COLLATE "C" REFERENCES nodes (id),
    source TEXT COLLATE "C" NOT NULL CHECK (source IN ('manual')),
    revision BIGINT NOT NULL,
    added_at DOUBLE PRECISION NOT NULL,
    last_served_at DOUBLE PRECISION,
    last_served_by TEXT COLLATE "C"
);
