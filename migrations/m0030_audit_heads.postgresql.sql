-- Signed heads on their way from the Authority that writes to the others. Each keeps its
-- own outside of the store; what stands here is believed only by its signature.
CREATE TABLE audit_heads (
    tree_size BIGINT PRIMARY KEY CHECK (tree_size >= 1),
    line TEXT NOT NULL
);
