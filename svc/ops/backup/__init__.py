"""Backups: what one contains, and how it is packed, encrypted, verified and restored.

Checking a backup writes no key to a disk.  Begin with ``create`` and ``restore``.
"""
