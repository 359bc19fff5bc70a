"""One session at the Authority: verifies, decides and records its request, and records its end.

Connectors register here as well, since a session goes to the Connector that serves its resource.
No session bytes pass here.  Begin with ``issue``, the only place where a grant is made.
"""
