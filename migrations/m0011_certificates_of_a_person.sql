-- Revoking a person walks its certificates.
CREATE INDEX certificates_of_a_person ON person_certificates (person_id, issued_at);
