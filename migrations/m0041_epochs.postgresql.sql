-- What the whole cluster switched on, such as the SSH gate. No row is epoch 0: off.
CREATE TABLE epochs (
    name TEXT COLLATE "C" PRIMARY KEY,
    epoch BIGINT NOT NULL CHECK (epoch >= 1),
    activated_at DOUBLE PRECISION NOT NULL,
    activated_by TEXT COLLATE "C" NOT NULL
);
