-- What a person has asked for, looked up whenever a session of theirs would be denied.
CREATE INDEX open_requests_of_a_person ON access_requests (person_id, ends_at);
