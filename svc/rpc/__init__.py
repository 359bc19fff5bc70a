"""gRPC on the Twisted reactor: servers, channels, and byte streams over calls.

This room knows no message of the gateway and decides nothing about callers.  It is one shelf for
what servers and channels share; each of the two has a folder.  Begin with ``connection``, then
``server.server`` and ``client.channel``.
"""
