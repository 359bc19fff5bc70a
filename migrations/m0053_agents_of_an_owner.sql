-- Revoking a person revokes what still acts for it.
CREATE INDEX agents_of_an_owner ON agents (owner) WHERE state = 'active';
-- The newest certificate of an agent is what the next one follows.
CREATE INDEX certificates_of_an_agent ON agent_certificates (agent_id, generation);
