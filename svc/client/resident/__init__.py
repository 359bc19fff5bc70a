"""The resident (``svc up``): local endpoints that accept only the person's own processes.

It opens sessions through :mod:`svc.client.sessions`.  Begin with ``service``.
"""
