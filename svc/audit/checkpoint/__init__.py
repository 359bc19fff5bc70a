"""Signed heads: how they are signed, stored outside the store, exchanged and given to witnesses.

A head states the log's size and root hash and is signed by the anchor key; heads prove the past.
The room also checks the store against the heads.  It does not seal or verify single records; that
is :mod:`svc.audit.log`.  It is one shelf: each module does one
thing with a head.  Begin with ``head``, then ``signer`` and ``monitor``.
"""
