-- Whose key signed records that change protected rows: the certificate, by its SHA-256.
CREATE TABLE state_signers (
    key_id TEXT PRIMARY KEY,
    certificate BLOB NOT NULL
) STRICT;
