-- The proposals that wait, soonest to expire first.
CREATE INDEX open_proposals ON policy_proposals (expires_at) WHERE state = 'open';
