"""The Authority, wired: one module a part of it.  Begin with ``role``."""
