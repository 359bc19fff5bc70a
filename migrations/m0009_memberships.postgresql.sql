-- Who is in which group.
CREATE TABLE memberships (
    person_id TEXT COLLATE "C" NOT NULL REFERENCES persons (id),
    group_name TEXT COLLATE "C" NOT NULL REFERENCES person_groups (name),
    PRIMARY KEY (person_id, group_name)
);
