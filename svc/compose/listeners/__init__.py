"""Listeners, wired: addresses, TLS, limits of connections, and the file that names what is bound.

Begin with ``rpc``.
"""
