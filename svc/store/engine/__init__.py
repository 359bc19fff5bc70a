"""Threads that run jobs over a database, and the lock that keeps a second writer out.

Knows neither SQLite nor PostgreSQL: a backend supplies what runs a batch.  Begin with ``threaded``.
"""
