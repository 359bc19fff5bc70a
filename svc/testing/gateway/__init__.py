"""A gateway of real processes in a temporary directory, and people who use it.

Begin with ``gateway``.
"""
