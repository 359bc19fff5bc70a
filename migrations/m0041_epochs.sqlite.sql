-- What the whole cluster switched on, such as the SSH gate. No row is epoch 0: off.
CREATE TABLE epochs (
    name TEXT PRIMARY KEY,
    epoch INTEGER NOT NULL CHECK (epoch >= 1),
    activated_at REAL NOT NULL,
    activated_by TEXT NOT NULL
) STRICT;
