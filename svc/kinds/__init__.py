"""The built-in resource kinds ``tcp`` and ``ssh``, and what kinds share.

A kind knows its terms and its endpoint, and no role.  Begin with ``opaque`` and ``tcp``.
"""
