"""A session as values: what a person signs, what the Authority grants, what is kept of it.

Nothing here signs or verifies.  It is one shelf: the values are of one session, each its own.
Begin with ``request`` and ``grant``.
"""
