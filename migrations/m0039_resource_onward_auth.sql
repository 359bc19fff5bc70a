-- How the Connector signs on at the target. NULL: nobody chose yet, as for every row of before.
ALTER TABLE resources ADD COLUMN onward_auth TEXT
    CHECK (onward_auth IN ('certificate', 'passthrough', 'stored_key'));
-- Connectors may find resources, too; what was there before was declared by hand.
ALTER TABLE resources ADD COLUMN found_by TEXT NOT NULL DEFAULT 'manual'
    CHECK (found_by IN ('manual', 'assignment', 'discovered'));
ALTER TABLE resources DROP COLUMN source;
ALTER TABLE resources RENAME COLUMN found_by TO source;
