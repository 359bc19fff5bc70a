"""Verifies the audit log as an outsider would: with only the store, the anchor and the root.

It never changes what it reads.  Begin with ``log``; ``rows`` reads and verifies in parallel.
"""
