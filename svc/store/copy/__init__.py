"""Copies of a whole store as lines of JSON that name no database: what a backup holds.

Each backend reads and fills its own store (``sqlite.copy``, ``postgres.copy``).
"""
