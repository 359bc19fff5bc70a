"""What this Authority knows of the cluster, read whole from the store.

A frozen picture, swapped at each change; deciding never reads the store.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from attrs import define, evolve, field, frozen

from svc.errors import Denied
from svc.interfaces.store import IReadOnlyStore, ITransaction
from svc.model.node import Node, NodeState
from svc.model.person import Person, PersonState
from svc.model.policy_version import PolicyVersion
from svc.model.principal import Principal, Role
from svc.model.resource import Resource


@frozen
class ClusterFacts:
    """People, nodes, catalog and policy as of one moment.

    ``revision`` counts changes of what the policy looks at.
    """

    people: Mapping[str, Person] = field(factory=dict)
    groups: tuple[str, ...] = ()
    nodes: Mapping[str, Node] = field(factory=dict)
    catalog: Mapping[str, Resource] = field(factory=dict)
    policy: PolicyVersion | None = None
    revision: int = 0


def read_facts(tx: ITransaction) -> ClusterFacts:
    """The facts of one transaction."""
    return ClusterFacts(
        people={one.id: one for one in tx.people.all()},
        groups=tx.people.groups(),
        nodes={one.id: one for one in tx.nodes.all()},
        catalog={one.id: one for one in tx.catalog.all()},
        policy=tx.policies.active(),
        revision=tx.catalog.revision(),
    )


@define
class Knowledge:
    """Holds the current facts and tells who asked to be told of a change."""

    store: IReadOnlyStore
    facts: ClusterFacts = field(factory=ClusterFacts)
    _told: list[Callable[[ClusterFacts], object]] = field(factory=list)

    def on_change(self, told: Callable[[ClusterFacts], object]) -> None:
        """Call *told* after every refresh that changed something."""
        self._told.append(told)

    async def refresh(self) -> ClusterFacts:
        """Read the store again; called after each change of ours and at the reload pass."""
        facts = await self.store.read("read the cluster's facts", read_facts)
        if facts != self.facts:
            self.facts = facts
            for told in self._told:
                told(facts)
        return facts

    def served(self, node_id: str, resources: Collection[str], at: float) -> None:
        """Remember what a Connector that registered serves, as the store was told.

        Nothing the policy looks at changes, so nobody is told; reading everything
        again for each of many Connectors would cost far more.
        """
        catalog = dict(self.facts.catalog)
        for one in resources:
            if one in catalog:
                catalog[one] = evolve(catalog[one], last_served_at=at, last_served_by=node_id)
        self.facts = evolve(self.facts, catalog=catalog)

    def node(self, principal: Principal) -> Node:
        """The active node a certificate speaks for.

        Raises:
            Denied: ``unknown_node`` or ``revoked_node``.
        """
        node = self.facts.nodes.get(principal.id)
        if node is None or node.role != principal.role.value:
            raise Denied("the node is not in the registry", reason="unknown_node")
        if node.state is NodeState.REVOKED:
            raise Denied("the node was revoked", reason="revoked_node")
        return node

    def person(self, principal: Principal) -> Person:
        """The active person a certificate speaks for.

        Raises:
            Denied: ``unknown_person`` or ``revoked_person``.
        """
        person = self.facts.people.get(principal.id) if principal.role is Role.USER else None
        if person is None:
            raise Denied("the person is not known here", reason="unknown_person")
        if person.state is PersonState.REVOKED:
            raise Denied("the person was revoked", reason="revoked_person")
        return person
