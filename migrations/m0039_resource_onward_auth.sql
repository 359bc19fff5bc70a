-- How the Connector signs on at the target. NULL: nobody chose yet, as for every row of before.
ALTER TABLE resources ADD COLUMN onward_auth TEXT
    CHECK (onward_auth IN ('certificate', 'passthrough', 'stored_key'));
