-- Labels of resources; they become Cedar tags.
CREATE TABLE resource_labels (
    resource_id TEXT COLLATE "C" NOT NULL REFERENCES resources (id) ON DELETE CASCADE,
    name TEXT COLLATE "C" NOT NULL,
    value TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (resource_id, name)
);
