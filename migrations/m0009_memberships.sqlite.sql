-- Who is in which group.
CREATE TABLE memberships (
    person_id TEXT NOT NULL REFERENCES persons (id),
    group_name TEXT NOT NULL REFERENCES person_groups (name),
    PRIMARY KEY (person_id, group_name)
) STRICT, WITHOUT ROWID;
