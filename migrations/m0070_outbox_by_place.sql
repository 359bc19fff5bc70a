-- How far a spool has come.
CREATE INDEX outbox_by_place ON outbox (origin, spool_id, n);
