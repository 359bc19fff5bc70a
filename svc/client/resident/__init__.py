"""The resident (``svc up``): local endpoints that let only the person's own processes in.

Begin with ``service``; a session is opened by :mod:`svc.client.sessions`.
"""
