"""How certificates come to be: the first by token or expected key, the next by renewal.

Begin with ``bootstrap``; what a certificate looks like is :mod:`svc.pki`.
"""
