"""The self-check: each check once in order, and once not."""
