"""The PostgreSQL backend: one connection that writes, some that read.  Begin with ``factory``."""
