-- The signature of a record that another instance than the leader wrote; heads cover it.
ALTER TABLE audit_log ADD COLUMN signature BLOB;
