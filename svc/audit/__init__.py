"""The audit log: sealing records, chaining, signed heads, verifying, showing.

Knows no store, no key and no certificate: rows, signatures and verdicts on
certificates come through callables and ``svc.interfaces``.
"""
