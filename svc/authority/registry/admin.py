"""What operators do with members of the cluster, assembled."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from svc.authority.registry.agents import AgentAdmin
from svc.authority.registry.forget import PersonErasure
from svc.authority.registry.groups import GroupAdmin
from svc.authority.registry.members import MemberAdmin
from svc.authority.registry.people import PeopleAdmin
from svc.authority.registry.rights import RightsCheck
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
    groups: GroupAdmin
    tokens: TokenAdmin
    erasure: PersonErasure
    agents: AgentAdmin


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
    rights: RightsCheck,
    actions: Callable[[], frozenset[str]] = frozenset,
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
    return _registry(tokens, nodes, actions, rights)


def _registry(
    tokens: TokenAdmin,
    nodes: MemberAdmin,
    actions: Callable[[], frozenset[str]],
    rights: RightsCheck,
) -> RegistryAdmin:
    people = _people_admin(tokens, rights)
    return RegistryAdmin(
        nodes=nodes,
        people=people,
        groups=people.groups,
        tokens=tokens,
        erasure=_erasure(tokens),
        agents=AgentAdmin(tokens=tokens, entropy=tokens.entropy, actions=actions, rights=rights),
    )


def _people_admin(tokens: TokenAdmin, rights: RightsCheck) -> PeopleAdmin:
    """People over the same store as their tokens."""
    groups = GroupAdmin(
        state_cache=tokens.state_cache,
        store=tokens.store,
        recorder=tokens.recorder,
        now=tokens.now,
        rights=rights,
    )
    return PeopleAdmin(
        state_cache=tokens.state_cache,
        store=tokens.store,
        recorder=tokens.recorder,
        now=tokens.now,
        entropy=tokens.entropy,
        tokens=tokens,
        groups=groups,
    )


def _erasure(tokens: TokenAdmin) -> PersonErasure:
    return PersonErasure(
        state_cache=tokens.state_cache,
        store=tokens.store,
        recorder=tokens.recorder,
        entropy=tokens.entropy,
    )
