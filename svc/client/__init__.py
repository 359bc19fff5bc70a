"""The person's side: opens sessions, and keeps local endpoints open.

It trusts no Proxy: a grant counts only with the Authority's signature.  Begin with ``sessions``
(one session), ``link`` (the connection to a Proxy) and ``resident`` (``svc up``).
"""
