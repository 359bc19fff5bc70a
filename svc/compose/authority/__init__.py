"""Builds the Authority, one module for each part of it.  Begin with ``role``."""
