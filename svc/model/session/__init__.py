"""A session as values: what a person signs, what Authority grants, what is remembered of it.

Begin with ``request`` and ``grant``.
"""
