-- A name is free again once its node is revoked.
CREATE UNIQUE INDEX active_node_names ON nodes (name) WHERE state = 'active';
