-- What was published, apart from the catalog's own rows, for people to look at; gone with its
-- lease.  A row has the scope that admitted it, or a word for why it is not served, or both.
-- Labels are a JSON object, and reach a policy under "discovered." only.
CREATE TABLE scope_rows (
    node_id TEXT NOT NULL,
    source TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    labels TEXT NOT NULL,
    scope TEXT NOT NULL,
    refused TEXT NOT NULL,
    seen_at REAL NOT NULL,
    PRIMARY KEY (node_id, source, resource_id),
    FOREIGN KEY (node_id, source)
        REFERENCES scope_leases (node_id, source) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
