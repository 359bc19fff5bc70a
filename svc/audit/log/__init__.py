"""The log itself: seals records, and verifies, shows, proves and exports them.

Nothing here signs or stores a head; that is :mod:`svc.audit.checkpoint`.  Begin with ``record``.
"""
