"""Discovery at the Authority: what Connectors find becomes resources, within operators' scopes.

What a Connector publishes is kept in memory, under a lease that it renews; what becomes of each id
is decided by one pure function, whatever happened: a publication, the end of a lease, a scope that
was set, a Connector that was revoked.  The catalog's rows are signed like every other; what a
Connector says grants nothing (rule R15).

Begin at ``service.py``, and at ``settlement.py`` for what is decided.
"""
