-- The version in force is found without a walk over the texts.
CREATE INDEX activated_policies ON policy_versions (version) WHERE activated_at IS NOT NULL;
