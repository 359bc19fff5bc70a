"""A session as values: what a person signs, what the Authority grants, what is kept of it.

Nothing here signs or verifies.  Begin with ``request`` and ``grant``.
"""
