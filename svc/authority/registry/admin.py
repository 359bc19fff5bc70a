"""What operators do with members of the cluster, assembled."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from svc.authority.registry.agents import AgentAdmin
from svc.authority.registry.forget import PersonErasure
from svc.authority.registry.groups import GroupAdmin
from svc.authority.registry.members import MemberAdmin
from svc.authority.registry.peers import PeerProxies
from svc.authority.registry.people import PeopleAdmin
from svc.authority.registry.rights import RightsCheck
from svc.authority.registry.tokens import TokenAdmin
from svc.authority.state.writer import StateWriter


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
    writer: StateWriter,
    peers: PeerProxies,
    ca_pin: str,
    token_secs: float,
    leaf_secs: float,
    proxy_revoked: Callable[[str], object],
    rights: RightsCheck,
    actions: Callable[[], frozenset[str]] = frozenset,
) -> RegistryAdmin:
    """Wire it; the parameters are explained where they are used."""
    tokens = TokenAdmin(writer, ca_pin, token_secs)
    groups = GroupAdmin(writer, rights)
    return RegistryAdmin(
        nodes=MemberAdmin(
            writer=writer,
            peers=peers,
            tokens=tokens,
            proxy_revoked=proxy_revoked,
            leaf_secs=leaf_secs,
        ),
        people=PeopleAdmin(writer, tokens, groups),
        groups=groups,
        tokens=tokens,
        erasure=PersonErasure(writer),
        agents=AgentAdmin(writer=writer, tokens=tokens, actions=actions, rights=rights),
    )
