"""Recorded requests decided again by a candidate policy.

Runs in a process of its own, which parses the candidate so that no other
process has to.  Begin with ``child``.
"""
