"""The log itself: records are sealed into it, verified, shown, proved and exported from it.

Nothing here signs or keeps a head; that is :mod:`svc.audit.checkpoint`.  Begin with ``record``.
"""
