"""Signed heads: made, kept outside the store, exchanged, witnessed, and the store watched by them.

A head says how long the log was and what its hashes come to, signed by the anchor key; it is what
proves the past.  Begin with ``head``, then ``signer`` and ``monitor``.
"""
