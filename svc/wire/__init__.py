"""gRPC over HTTP/2 without I/O: bytes in, events and bytes out.

Knows nothing of sockets, of Twisted, or of what its messages mean.
"""
