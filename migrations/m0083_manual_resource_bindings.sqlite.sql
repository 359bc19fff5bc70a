-- Who serves a resource, one row a change; of one resource at most one is current.
CREATE TABLE manual_bindings (
    identity TEXT NOT NULL REFERENCES resource_identities (identity),
    node_id TEXT REFERENCES nodes (id),
    revision INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('current', 'past')),
    bound_at REAL NOT NULL,
    PRIMARY KEY (identity, revision)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX one_current_binding ON manual_bindings (identity) WHERE state = 'current';
CREATE INDEX bindings_of_a_node ON manual_bindings (node_id) WHERE state = 'current';
-- What was assigned stays assigned, under the revision of the resource's last change.
INSERT INTO manual_bindings (identity, node_id, revision, state, bound_at)
    SELECT i.identity, r.assigned_to, r.revision, 'current', r.added_at
    FROM resources r JOIN resource_identities i ON i.resource_id = r.id AND i.retired_at IS NULL
    WHERE r.assigned_to IS NOT NULL;
DROP INDEX resources_of_a_node;
ALTER TABLE resources DROP COLUMN assigned_to;
