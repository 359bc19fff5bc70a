"""The audit log: sealed records, their hash chain, signed heads, and verification.

This room knows no store, no key and no certificate.  It gets rows, signatures and verdicts on
certificates through callables and ``svc.interfaces``.  Begin with ``log.record`` for a record, and
``checkpoint.head`` for a head.
"""
