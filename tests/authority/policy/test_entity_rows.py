"""The entities of one state after the other."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from svc.authority.policy.entity_rows import EntitiesOfRows, entities_from
from svc.authority.state.cluster import ClusterState
from svc.model.cluster.agent import Agent, Delegation
from svc.model.cluster.node import Leaf, Node
from svc.model.cluster.person import Person, PersonState
from svc.model.cluster.resource import Resource
from svc.model.policy.access import Entity
from tests.kinds.served import KINDS

_LEAF = Leaf("01", b"k" * 32, 2e9)


def _state() -> ClusterState:
    people = [Person(f"u{n}", f"name{n}", groups=("g",)) for n in range(3)]
    agent = Agent(id="a1", name="bot", owner="u0")
    node = Node(
        id="n1",
        name="edge",
        role="connector",
        key_sha256=b"k" * 32,
        audit_key=b"a" * 32,
        leaf=_LEAF,
        enrolled_at=1.0,
    )
    things = [Resource(f"r{n}", "tcp", labels={"env": "prod"}, assigned_to="n1") for n in range(3)]
    return ClusterState(
        people={one.id: one for one in people},
        groups=("g",),
        agents={agent.id: agent},
        nodes={node.id: node},
        catalog={one.id: one for one in things},
        revision=1,
    )


def _by_id(entities: tuple[Entity, ...]) -> dict[str, Entity]:
    return {one.uid.id: one for one in entities}


class EntityRowsTests(SynchronousTestCase):
    """Each state gives what it gives alone, and a row that did not change the same object."""

    def setUp(self) -> None:
        self.rows = EntitiesOfRows(KINDS, "gate.example")
        self.state = _state()
        self.first = _by_id(self.rows.of(self.state))

    def _next(self, **changes: Any) -> dict[str, Entity]:
        self.state = evolve(self.state, **changes)
        found = self.rows.of(self.state)
        self.assertEqual(found, entities_from(self.state, KINDS, "gate.example"))
        return _by_id(found)

    def test_one_row(self) -> None:
        """Another label makes one entity anew."""
        other = evolve(self.state.catalog["r1"], labels={"env": "test"})
        found = self._next(catalog={**self.state.catalog, "r1": other})
        self.assertEqual(dict(found["r1"].tags), {"env": "test"})
        for id in ("u0", "u1", "u2", "n1", "r0", "r2"):
            self.assertIs(found[id], self.first[id], id)

    def test_disabled(self) -> None:
        """A person who was disabled is away with their agent, and comes back with it."""
        people = self.state.people
        gone = evolve(people["u0"], state=PersonState.DISABLED)
        found = self._next(people={**people, "u0": gone})
        self.assertEqual(self.first.keys() - found.keys(), {"u0", "a1"})
        self.assertEqual(self._next(people=people), self.first)

    def test_delegation(self) -> None:
        """An agent's entity follows its delegations, though its own row stays."""
        acting = Delegation(
            id="d1",
            agent_id="a1",
            person_id="u1",
            actions=("tcpConnect",),
            added_at=1.0,
            expires_at=9.0,
        )
        found = self._next(delegations={acting.id: acting})
        self.assertNotEqual(found["a1"], self.first["a1"])
        self.assertEqual(self._next(delegations={})["a1"], self.first["a1"])

    def test_another_kind(self) -> None:
        """A resource of a kind that is not enabled is none."""
        odd = evolve(self.state.catalog["r1"], kind="odd")
        found = self._next(catalog={**self.state.catalog, "r1": odd})
        self.assertEqual(self.first.keys() - found.keys(), {"r1"})
