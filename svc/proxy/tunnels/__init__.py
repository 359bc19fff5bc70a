"""Connectors at a Proxy: they register, the Authority allows or refuses it, and they disconnect.

The Proxy passes on the Connector's signed registration and cannot make one.  Begin with
``service``.
"""
