"""Recordings of sessions: the file that one is kept in, sealed, from its Connector to an operator.

``sealing`` seals and opens its frames, ``file`` reads such a file, and ``part`` is how it travels.
The Connector writes it, and has only the public key; Authority keeps it as it came, and has the
private one.
"""
