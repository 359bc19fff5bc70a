"""The audit log as values: records, the catalogue of events, and rows on their way to the log.

Nothing here is sealed, signed or stored; that is :mod:`svc.audit`.  Begin with ``record``.
"""
