-- Counts the assignments of one resource; each of before is its first.
ALTER TABLE manual_bindings ADD COLUMN assignment_revision BIGINT NOT NULL DEFAULT 1;
