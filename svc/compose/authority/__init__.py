"""Builds the Authority, one module for each part of it: it is one shelf.  Begin with ``role``."""
