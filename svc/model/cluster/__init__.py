"""Who and what belongs to a cluster: nodes, people, resources, tokens, the leader's lease.

Values only; :mod:`svc.authority.registry` changes them.
"""
