"""Which protected rows are in force, by the signed records of their changes alone (rule R8)."""
