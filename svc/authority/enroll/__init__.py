"""Issues certificates: the first by token or expected key, the next by renewal.

What a certificate looks like is defined in :mod:`svc.pki`, not here.  Begin with ``bootstrap``.
"""
