-- Revoking a person revokes what still acts for it.
CREATE INDEX agents_of_an_owner ON agents (owner) WHERE state = 'active';
