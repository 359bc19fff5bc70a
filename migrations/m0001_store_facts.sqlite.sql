-- What this store is told once and keeps for ever: whose cluster, which log.
CREATE TABLE store_facts (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;
