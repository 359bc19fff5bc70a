"""How a role is set up on its host."""
