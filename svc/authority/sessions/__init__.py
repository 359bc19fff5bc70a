"""One session at Authority: its request is verified, decided and recorded, its end is recorded too.

Connectors register here as well, since a session goes to whoever serves its resource.
Begin with ``issue``: the only place where a grant is made.
"""
