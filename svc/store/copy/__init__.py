"""Copies of a whole store as lines of JSON that fit any database: the format of a backup.

Each backend reads and fills its own store (``sqlite.copy``, ``postgres.copy``).  Begin with
``lines``.
"""
