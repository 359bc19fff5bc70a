"""The PostgreSQL backend: one connection that writes, and several that read.

Begin with ``factory``.
"""
