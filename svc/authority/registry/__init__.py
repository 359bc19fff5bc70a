"""Nodes, people, groups and resources, as operators change and list them; Connectors register.

It knows which Connector serves which resource now (``routes``).  It issues no certificate and
decides no session.  Begin with ``members`` and ``catalog``, or for Connectors with ``register``.
It is one shelf: each module is a noun that operators manage, and what several of these share.
"""
