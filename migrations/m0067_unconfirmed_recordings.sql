-- The recordings that are not yet known to be in their place.
CREATE INDEX unconfirmed_recordings ON recordings (session_uid) WHERE confirmed_at IS NULL;
