-- Which records change protected rows, in order, and their signatures. A row of policies,
-- people, nodes, tokens, certificates or resources is in force only as the newest of these says.
CREATE TABLE state_changes (
    n INTEGER PRIMARY KEY CHECK (n >= 1),
    seq INTEGER NOT NULL UNIQUE REFERENCES audit_log (seq),
    key_id TEXT NOT NULL REFERENCES state_signers (key_id),
    signature BLOB NOT NULL
) STRICT;
