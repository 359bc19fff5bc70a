"""Keys and certificates: the cluster root, issuing CAs, purpose keys, and our own identity.

This room knows no store and no wire protocol.  The roles decide who may have a certificate, from
facts that they pass in.  It is one shelf: each module is one thing that is done
with a key or a certificate.  Begin with ``profile``, then ``issue`` and ``verify``.
"""
