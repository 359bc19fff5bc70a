-- Each reload pass looks at the tokens that have not expired.
CREATE INDEX unexpired_tokens ON join_tokens (expires_at);
