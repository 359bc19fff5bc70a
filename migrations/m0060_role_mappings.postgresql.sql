-- Which group here a group claim of an OIDC issuer stands for. It makes nobody an operator.
CREATE TABLE role_mappings (
    issuer TEXT COLLATE "C" NOT NULL,
    claim TEXT COLLATE "C" NOT NULL,
    group_name TEXT COLLATE "C" NOT NULL REFERENCES person_groups (name),
    PRIMARY KEY (issuer, claim, group_name)
);
