"""gRPC on the Twisted reactor: servers, channels, and byte streams over calls.

This room knows no message of the gateway and decides nothing about callers.  Begin with
``connection``, then ``server.server`` and ``client.channel``.
"""
