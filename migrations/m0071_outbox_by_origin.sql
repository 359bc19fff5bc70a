-- How much of the queue is one origin's.
CREATE INDEX outbox_by_origin ON outbox (origin, size);
