"""The helper that binds ports below 1024, and the resident that asks it."""
