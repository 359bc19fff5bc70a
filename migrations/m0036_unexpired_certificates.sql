-- Each reload pass looks at the certificates that have not expired.
CREATE INDEX unexpired_certificates ON person_certificates (expires);
