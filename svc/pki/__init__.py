"""Keys and certificates: the cluster root, issuing CAs, purpose keys, our own identity.

Knows no store and no wire: who may have a certificate is decided by the roles,
from facts that they pass in.
"""
