-- When an agent was here last. NULL: it was not seen, or by a Proxy that does not say.
ALTER TABLE agents ADD COLUMN last_seen DOUBLE PRECISION;
