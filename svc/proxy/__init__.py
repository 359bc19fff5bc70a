"""The Proxy role: the public listener, the gate, the routes, and the connection to the Authority.

It is a courier (rule R1): it decides by what the Authority signed, carries what people, nodes and
the Authority signed, and can produce none of it.  Begin with ``public`` and ``sessions``.
"""
