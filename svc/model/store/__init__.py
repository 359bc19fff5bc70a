"""How far a store is migrated, and what a rehearsal of migrations found: pure comparisons."""
