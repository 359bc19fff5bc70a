-- Two processes under one name are told apart by it: it changes with each start.
ALTER TABLE authority_members ADD COLUMN instance TEXT NOT NULL DEFAULT '';
