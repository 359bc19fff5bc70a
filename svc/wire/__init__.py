"""gRPC over HTTP/2 without I/O: bytes in, events and bytes out.

This room knows no socket, no Twisted, and not what its messages mean.  It is one
shelf: the modules are parts of one HTTP/2 machine.  Begin with ``connection``.
"""
