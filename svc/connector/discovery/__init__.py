"""Discovery at a Connector: sources tell what there is, and it is published to the Authority.

Addresses stay here: only ids, kinds and labels leave.  Begin at ``sources.py``.
"""
