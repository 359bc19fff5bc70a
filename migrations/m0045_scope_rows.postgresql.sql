-- What was published, apart from the catalog's own rows, for people to look at; gone with its
-- lease.  A row has the scope that admitted it, or a word for why it is not served, or both.
-- Labels are a JSON object, and reach a policy under "discovered." only.
CREATE TABLE scope_rows (
    node_id TEXT COLLATE "C" NOT NULL,
    source TEXT COLLATE "C" NOT NULL,
    resource_id TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    labels TEXT COLLATE "C" NOT NULL,
    scope TEXT COLLATE "C" NOT NULL,
    refused TEXT COLLATE "C" NOT NULL,
    seen_at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (node_id, source, resource_id),
    FOREIGN KEY (node_id, source)
        REFERENCES scope_leases (node_id, source) ON DELETE CASCADE
);
