"""Recordings at Authority: received from Connectors, kept sealed, opened for operators alone.

``receive`` takes them, ``files`` is the store that comes with svc, ``key`` opens them, ``admin``
answers operators, and ``expiry`` ends what never became complete, or was kept long enough.
"""
