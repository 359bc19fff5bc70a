"""Several Authorities on one store: who leads, and what the others forward to the leader.

Nothing here decides sessions.  Begin with ``lease``.
"""
