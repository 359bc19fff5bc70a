"""One session at the Authority: verifies, decides and records its request, and records its end.

No session bytes pass here.  Begin with ``issue``, the only place where a grant is made.
"""
