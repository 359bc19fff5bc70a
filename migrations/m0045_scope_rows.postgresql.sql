-- What was published, apart from the catalog's own rows; gone with its lease. Labels are a JSON
-- object, and reach a policy under "discovered." only.
CREATE TABLE scope_rows (
    scope TEXT COLLATE "C" NOT NULL,
    node_id TEXT COLLATE "C" NOT NULL,
    source TEXT COLLATE "C" NOT NULL,
    resource_id TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    labels TEXT COLLATE "C" NOT NULL,
    seen_at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (scope, node_id, source, resource_id),
    FOREIGN KEY (scope, node_id, source)
        REFERENCES scope_leases (scope, node_id, source) ON DELETE CASCADE
);
