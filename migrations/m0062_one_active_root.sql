-- Two active roots would be two answers to one question.
CREATE UNIQUE INDEX one_active_root ON root_epochs (state) WHERE state = 'active';
