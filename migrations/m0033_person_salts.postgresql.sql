-- Random, and part of the digest of a person's row: a name erased with it cannot be guessed.
ALTER TABLE persons ADD COLUMN salt BYTEA NOT NULL DEFAULT ''::bytea;
