"""The tunnel from a Connector to a Proxy, at both ends.

It does not decide who may use a tunnel; the roles do.  Begin with ``machine`` (the Connector's end)
and ``transport`` (the Proxy's end).
"""
