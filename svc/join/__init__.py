"""The joining side: how a node or a person comes to a first identity.

Secrets leave only inside TLS that was checked against the pinned root (rule R5).
"""
