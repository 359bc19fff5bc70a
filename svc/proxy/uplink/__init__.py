"""A Proxy's connection to the Authority: the link, the snapshot, and reports still to be sent.

Begin with ``link``.
"""
