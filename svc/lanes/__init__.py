"""Joins two byte streams, whatever carries them, and the two halves of a direct lane.

It never decides who may use a lane, and never reads the bytes of a session.  Begin with ``relay``
and ``half``.
"""
