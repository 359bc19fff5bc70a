"""Frozen values and pure functions that every other room may use.

There is no I/O, no clock and no Twisted here.  Begin with ``session`` and ``cluster``.
"""
