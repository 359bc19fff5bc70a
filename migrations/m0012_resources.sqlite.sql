-- The catalog: what exists and who may serve it. Addresses stay with the Connector.
CREATE TABLE resources (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    assigned_to TEXT REFERENCES nodes (id),
    source TEXT NOT NULL CHECK (source IN ('manual')),
    revision INTEGER NOT NULL,
    added_at REAL NOT NULL,
    last_served_at REAL,
    last_served_by TEXT
) STRICT;
