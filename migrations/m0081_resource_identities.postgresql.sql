-- Which resource of an id it is: one that was removed and added again is another.
CREATE TABLE resource_identities (
    identity TEXT COLLATE "C" PRIMARY KEY,
    resource_id TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    first_seen DOUBLE PRECISION NOT NULL,
    retired_at DOUBLE PRECISION
);
CREATE UNIQUE INDEX one_resource_of_an_id ON resource_identities (resource_id)
    WHERE retired_at IS NULL;
-- What is there already is the first of its id, for ever.
INSERT INTO resource_identities (identity, resource_id, kind, first_seen)
    SELECT 'first.' || id, id, kind, added_at FROM resources;
