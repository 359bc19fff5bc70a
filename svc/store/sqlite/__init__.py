"""The SQLite backend: a file with one writer, or memory.  Begin with ``factory``."""
