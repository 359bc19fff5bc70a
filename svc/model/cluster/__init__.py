"""Who and what belongs to a cluster: nodes, people, resources, tokens, the leader's lease.

Values only; :mod:`svc.authority.registry` changes them.  It is one shelf: each module is a noun of
the cluster, and what follows from its values alone.
"""
