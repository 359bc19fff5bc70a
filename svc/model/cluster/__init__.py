"""Who and what belongs to a cluster: nodes, people, resources, tokens, the lease of the leader.

Values only; the registry that changes them is :mod:`svc.authority.registry`.
"""
