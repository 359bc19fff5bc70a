"""Backups: what a generation consists of, how it is packed, encrypted, checked and put back.

Begin with ``create`` and ``restore``.
"""
