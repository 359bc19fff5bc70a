-- A person waits once for a resource.
CREATE UNIQUE INDEX open_requests_of_a_person ON access_requests (person_id, resource_id)
    WHERE state = 'open';
