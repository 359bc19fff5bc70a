-- What was published, apart from the catalog's own rows; gone with its lease. Labels are a JSON
-- object, and reach a policy under "discovered." only.
CREATE TABLE scope_rows (
    scope TEXT NOT NULL,
    node_id TEXT NOT NULL,
    source TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    labels TEXT NOT NULL,
    seen_at REAL NOT NULL,
    PRIMARY KEY (scope, node_id, source, resource_id),
    FOREIGN KEY (scope, node_id, source)
        REFERENCES scope_leases (scope, node_id, source) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
