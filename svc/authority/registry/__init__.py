"""Nodes, people, groups and resources, as operators change and list them.

It also knows which Connector serves which resource now (``routes``).  It issues no certificate and
decides no session.  Begin with ``members`` and ``catalog``.
"""
