"""The built-in resource kinds, and what they share.

A kind knows its terms and its endpoint, and no role.  Begin with ``opaque`` and ``tcp``.
"""
