"""Checks records that another instance wrote, before they may enter the log.

It only returns verdicts; :mod:`svc.authority.ingest` acts on them.  Begin with ``validate``.
"""
