"""Threads that run jobs on a database, and the lock that keeps a second writer out.

This room knows neither SQLite nor PostgreSQL: a backend passes in what runs a batch.  Begin with
``threaded``.
"""
