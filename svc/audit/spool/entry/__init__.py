"""The entry of one request: its text but for its place in a batch.  Begin with ``forms``."""
