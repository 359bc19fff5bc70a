-- Each reload pass looks at the delegations that have not expired.
CREATE INDEX unexpired_delegations ON delegations (expires_at);
