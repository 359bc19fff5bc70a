"""What the policy looks at, from the rows that are in force."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from attrs import define, field

from svc.authority.state.cluster import ClusterState
from svc.interfaces.kinds import ServedKind
from svc.model.cluster.agent import Agent, AgentState
from svc.model.cluster.labels import discovered_of, given_of
from svc.model.cluster.node import Node
from svc.model.cluster.person import Person, PersonState
from svc.model.cluster.resource import Resource
from svc.model.policy.access import Entity
from svc.policy.entities import (
    AgentFacts,
    Facts,
    GroupFacts,
    NodeFacts,
    PersonFacts,
    ResourceFacts,
    cluster_uid,
    entity_of,
    in_order,
)

_Row = TypeVar("_Row")


def entities_from(
    facts: ClusterState, kinds: Mapping[str, ServedKind], cluster: str
) -> tuple[Entity, ...]:
    """What the policy looks at: active people and agents, groups, nodes, resources of enabled
    kinds.
    """
    return EntitiesOfRows(kinds, cluster).of(facts)


@define
class EntitiesOfRows:
    """Makes the entities of each state; a row that is as it was gives the entity that it gave."""

    kinds: Mapping[str, ServedKind]
    cluster: str
    _made: dict[int, tuple[object, Entity]] = field(factory=dict, init=False)
    _fresh: dict[int, tuple[object, Entity]] = field(factory=dict, init=False)

    def of(self, facts: ClusterState) -> tuple[Entity, ...]:
        """The entities of *facts*, sorted by name.

        Raises:
            EntitiesRefused: two rows name one entity, or there are too many.
        """
        kinds = self.kinds
        found = [Entity(cluster_uid(self.cluster)), *map(entity_of, _groups_and_agents(facts))]
        found += [
            self._once(one, _person)
            for one in facts.people.values()
            if one.state is PersonState.ACTIVE
        ]
        found += [self._once(one, _node) for one in facts.nodes.values()]
        found += [
            self._once(one, self._resource) for one in facts.catalog.values() if one.kind in kinds
        ]
        self._made, self._fresh = self._fresh, {}
        return in_order(found)

    def _once(self, row: _Row, facts_of: Callable[[_Row], Facts]) -> Entity:
        # By identity: what is kept holds the row, so no other has its number meanwhile.
        kept = self._made.get(id(row))
        if kept is None:
            kept = (row, entity_of(facts_of(row)))
        self._fresh[id(row)] = kept
        return kept[1]

    def _resource(self, one: Resource) -> Facts:
        return ResourceFacts(
            id=one.id,
            entity_type=self.kinds[one.kind].terms.entity_type,
            kind=one.kind,
            labels=given_of(one.labels),
            discovered=discovered_of(one.labels),
        )


def _person(one: Person) -> Facts:
    return PersonFacts(one.id, one.name, one.groups)


def _node(one: Node) -> Facts:
    return NodeFacts(one.id, one.role)


def _groups_and_agents(facts: ClusterState) -> list[Facts]:
    """An agent's entity depends on other rows than its own."""
    return [
        *(GroupFacts(group) for group in facts.groups),
        *(
            AgentFacts(id=one.id, name=one.name, owner=one.owner, acts_for=_acts_for(one, facts))
            for one in facts.agents.values()
            if _is_in_force(one, facts)
        ),
    ]


def _is_in_force(agent: Agent, facts: ClusterState) -> bool:
    owner = facts.people.get(agent.owner)
    is_owned = owner is not None and owner.state is PersonState.ACTIVE
    return is_owned and agent.state is AgentState.ACTIVE


def _acts_for(agent: Agent, facts: ClusterState) -> tuple[str, ...]:
    theirs = (one for one in facts.delegations.values() if one.agent_id == agent.id)
    return tuple(sorted(text for one in theirs for text in one.texts))
