"""gRPC over HTTP/2 without I/O: bytes in, events and bytes out.

This room knows no socket, no Twisted, and not what its messages mean.  Begin with ``connection``.
"""
