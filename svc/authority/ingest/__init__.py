"""The audit queue: other instances' rows arrive, are checked, and enter the log or are held.

The checks themselves are in :mod:`svc.audit.ingest`.  Begin with ``queue`` (arrival), then
``drain`` and ``apply`` (into the log).
"""
