-- The counter of everything a policy decision looks at besides the policy.
INSERT INTO revisions (name, value) VALUES ('catalog', 0);
