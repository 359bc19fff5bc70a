"""The joining side: how a node or a person gets a first identity.

A secret is sent only inside TLS that was verified against the pinned root (rule R5).  Begin with
``enroll``.
"""
