"""Renewing an identity of a test, as Authority and the renewal loop would."""

from __future__ import annotations

from svc.pki.identity import TransportIdentity, check_material
from svc.pki.root import new_key
from tests.pki.support import World


def renew(world: World, identity: TransportIdentity, lifetime: float = 86400.0) -> None:
    """Put a newer leaf of the same holder in force, and tell the followers."""
    key, who = new_key(), identity.principal
    generation = identity.facts.generation + 1
    chain = world.issued(who.role, key, lifetime, generation, who.id).chain
    identity.replace(check_material(key, chain, world.verifier))
