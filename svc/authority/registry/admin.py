"""What operators do with members of the cluster, assembled."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from svc.authority.registry.members import MemberAdmin
from svc.authority.registry.people import PeopleAdmin
from svc.authority.registry.routes import Registrations
from svc.authority.registry.tokens import TokenAdmin
from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.recorder import Recorder
from svc.interfaces.store import IStore
from svc.model.ids import Entropy


@frozen
class RegistryAdmin:
    """The operators' side of each noun of the registry."""

    nodes: MemberAdmin
    people: PeopleAdmin
    tokens: TokenAdmin


def registry_admin(
    *,
    state_cache: ClusterStateCache,
    registrations: Registrations,
    store: IStore,
    recorder: Recorder,
    now: Callable[[], float],
    entropy: Entropy,
    ca_pin: str,
    token_secs: float,
    proxy_revoked: Callable[[str], object],
) -> RegistryAdmin:
    """Wire it; the parameters are explained where they are used."""
    tokens = TokenAdmin(
        state_cache=state_cache,
        store=store,
        recorder=recorder,
        now=now,
        entropy=entropy,
        ca_pin=ca_pin,
        token_secs=token_secs,
    )
    nodes = MemberAdmin(
        state_cache=state_cache,
        registrations=registrations,
        store=store,
        recorder=recorder,
        now=now,
        entropy=entropy,
        tokens=tokens,
        proxy_revoked=proxy_revoked,
    )
    people = PeopleAdmin(
        state_cache=state_cache,
        store=store,
        recorder=recorder,
        now=now,
        entropy=entropy,
        tokens=tokens,
    )
    return RegistryAdmin(nodes=nodes, people=people, tokens=tokens)
