-- What this store is told once and keeps for ever: whose cluster, which log.
CREATE TABLE store_facts (
    name TEXT COLLATE "C" PRIMARY KEY,
    value TEXT COLLATE "C" NOT NULL
);
