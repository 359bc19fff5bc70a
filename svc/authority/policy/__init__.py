"""The policy at the Authority: operators set it, it is in force here, Proxies receive it.

Decisions themselves are made in :mod:`svc.policy`.  Begin with ``active``.
"""
