"""Builds listeners: addresses, TLS, connection limits, and the file that names bound addresses.

What a listener serves comes from the roles.  Begin with ``rpc``.
"""
