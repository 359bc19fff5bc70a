-- Leases that ran out are found without a walk over those that last.
CREATE INDEX expiring_scope_leases ON scope_leases (expires_at);
