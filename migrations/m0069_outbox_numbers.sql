-- Numbers of the audit queue are never used again: whoever saw a row knows whether it is gone.
INSERT INTO revisions (name, value) VALUES ('outbox', 0);
