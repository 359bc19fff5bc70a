"""The server side of gRPC: listeners, their TLS, their connections, and the calls they serve.

Begin with ``server``.
"""
