"""The way from a Proxy to Authority: the link, the snapshot, and what is owed to Authority.

Begin with ``link``.
"""
