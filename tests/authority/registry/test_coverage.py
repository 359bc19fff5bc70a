"""Why nobody serves a resource now, and through which Proxies it cannot be reached."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from svc.authority.registry.coverage import Coverage, CoverageLook
from svc.authority.registry.routes import Registered
from svc.model.cluster.registration import GATE_NOT_OFFERED
from svc.model.cluster.resource import Assigned, ResourceSource
from svc.model.cluster.unserved import KIND_MISMATCH, PROBLEMS, problem_text
from svc.model.principal import Role
from tests.authority.house import House
from tests.support.proof import proves


class CoverageTests(SynchronousTestCase):
    """db1 is assigned to the Connector of the house."""

    def setUp(self) -> None:
        self.house = House()
        self.connector = self.house.connector.id
        self.seen = set[str]()

    def of(self, offered: frozenset[tuple[str, str]] = frozenset(), **changes: Any) -> Coverage:
        """The coverage of db1."""
        state = self.house.state_cache.state
        found = CoverageLook(self.house.peers, state, offered).of(
            evolve(state.catalog["db1"], **changes)
        )
        self.seen.add(found.problem)
        return found

    def registered(self, proxy_id: str, *served: Assigned, **changes: Any) -> Registered:
        """One registration more."""
        one = Registered(
            node_id=self.connector,
            proxy_id=proxy_id,
            tunnel_id="t1",
            instance_id="i1",
            resources={each.id: each for each in served},
            since=0.0,
            evict=lambda reason: None,
            **changes,
        )
        self.house.registrations.add(one)
        return one

    @proves("G-CLI-11", "U-PHA-19")
    def test_nobody_serves_it(self) -> None:
        """Each cause has its word, and each word says what to do."""
        db1 = self.house.state_cache.state.catalog["db1"].assigned
        self.assertEqual(self.of(assigned_to=None).problem, "unassigned")
        gone = self.of(assigned_to=None, source=ResourceSource.DISCOVERED)
        self.assertEqual(gone.problem, "not_found_any_more")
        self.assertEqual(self.of(assigned_to="x" * 26).problem, "node_revoked")
        self.assertEqual(
            self.of(kind="ssh", source=ResourceSource.DISCOVERED).problem, "mode_required"
        )
        self.assertEqual(self.of().problem, "not_connected")
        self.house.registrations.refuse(self.connector, "malformed_registration")
        self.assertEqual(self.of(), Coverage("registration_refused", "malformed_registration"))
        for withheld in (GATE_NOT_OFFERED, KIND_MISMATCH):
            one = self.registered(self.house.proxy.id, withheld={"db1": withheld})
            self.assertEqual(self.of(), Coverage(withheld))
            self.house.registrations.remove(one)
        one = self.registered(self.house.proxy.id)
        self.assertEqual(self.of(), Coverage("not_declared"))
        self.assertEqual(self.of(frozenset({("db1", self.connector)})), Coverage("registering"))
        self.house.registrations.remove(one)
        self.registered(self.house.proxy.id, evolve(db1, revision=db1.revision - 1))
        self.assertEqual(self.of(), Coverage("registering"))
        self.assertLessEqual(self.seen, set(PROBLEMS))
        for word in PROBLEMS:
            told = problem_text(word, node="db-1", reason="odd", missing=("edge",))
            self.assertNotIn("{", told, word)
        permits = problem_text("registration_refused", node="db-1", reason="catalog_permits_none")
        self.assertIn("compare the ids and kinds", permits)
        self.assertIn("of_tomorrow", problem_text("of_tomorrow"))

    def test_some_proxies_do_not_reach_it(self) -> None:
        """A Connector of one Proxy only is no way from the others, unless they relay."""
        db1 = self.house.state_cache.state.catalog["db1"].assigned
        first, second = self.house.proxy.id, self.house.node(Role.PROXY, "edge2").id
        self.house.refresh()
        peers = self.house.peers
        self.registered(first, db1)
        self.assertEqual(self.of(), Coverage(proxies=(first,)))
        peers.enter(first)
        peers.enter(second)
        peers.enter(second)
        self.assertEqual(self.of(), Coverage("partly_served", proxies=(first,), missing=(second,)))
        peers.greeted(second, "10.0.0.2:1")
        self.assertEqual(self.of().missing, (second,))
        peers.greeted(first, "10.0.0.1:1")
        self.assertEqual(self.of(), Coverage(proxies=(first,)))
        peers.greeted(first, "")
        self.registered(second, db1)
        self.assertEqual(self.of(), Coverage(proxies=tuple(sorted((first, second)))))
        self.assertFalse(peers.leave(second))
        self.assertTrue(peers.leave(second))
        self.assertEqual(peers.here, (first,))
