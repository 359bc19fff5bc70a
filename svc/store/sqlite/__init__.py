"""The SQLite backend: a file with one writer, or a database in memory.  Begin with ``factory``."""
