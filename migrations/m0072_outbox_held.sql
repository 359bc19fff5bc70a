-- The held rows; the others are few, and are found among them by this too.
CREATE INDEX outbox_held ON outbox (hold, id);
