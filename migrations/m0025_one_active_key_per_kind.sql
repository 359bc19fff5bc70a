-- Two active revisions of one kind would be two answers to one question.
CREATE UNIQUE INDEX one_active_key_per_kind ON key_revisions (kind) WHERE state = 'active';
