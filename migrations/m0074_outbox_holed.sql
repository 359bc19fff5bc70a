-- Spools with a hole that nobody was told of yet.
CREATE INDEX outbox_holed ON outbox_spools (holed_since) WHERE holed_since IS NOT NULL;
