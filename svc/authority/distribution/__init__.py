"""The distribution root: which Authorities share it, how they agree on it, and what it protects.

Each Authority has a receiver credential (``svc.pki.receiver``) and registers it here.  A root is
prepared by the leader, sealed to each owner, acknowledged by each with its signature, and then
activated.  The keys that Authorities sign with are distributed through the store only sealed
under the root in force.  Nothing here happens because time has passed.  Begin with ``ceremony``.
"""
