"""What every resource kind keeps.  Mix into a TestCase and name your kind.

::

    class VncTests(KindContract, SynchronousTestCase):
        kind = vnc
        good_table = {"address": "desk1.internal:5900"}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.testing import MemoryReactorClock
from zope.interface.verify import verifyObject

from svc.errors import ConfigError
from svc.interfaces.kinds import IResourceKind
from svc.model.cluster.target import Target
from svc.model.ids import is_resource_id

REQUEST_KINDS = frozenset({"connect", "db_connect", "db_query", "kube", "web"})


class KindContract:
    """The contract.

    Attributes:
        kind: The object your drop-in offers.
        good_table: A table that it accepts, without ``id`` and ``kind``.
    """

    kind: IResourceKind
    good_table: Mapping[str, object] = {"address": "target.example:7000"}

    def _parse(self, table: Mapping[str, object]) -> Target:
        return self.kind.parse("desk1", table, "connector.resources[0]")

    def test_keeps_the_interface(self: Any) -> None:
        """The kind has every member of IResourceKind, with its signature."""
        verifyObject(IResourceKind, self.kind)

    def test_words(self: Any) -> None:
        """Its name and metric label are plain words, its request kind a known one."""
        self.assertTrue(is_resource_id(self.kind.name))
        self.assertTrue(self.kind.protocol.isidentifier() and self.kind.protocol.islower())
        self.assertIn(self.kind.request_kind, REQUEST_KINDS)

    def test_runs_tls_end_to_end(self: Any) -> None:
        """It is opaque: a kind without a request gate has no other protection from the Proxy."""
        self.assertIs(self.kind.opaque, True)

    def test_terms(self: Any) -> None:
        """The action that opens a session is one of its actions, each named once."""
        terms = self.kind.terms
        self.assertIn(terms.open_action, terms.actions)
        self.assertEqual(len(set(terms.actions)), len(terms.actions))
        self.assertTrue(terms.entity_type.isidentifier())

    def test_parses(self: Any) -> None:
        """A good table gives a target of this kind, the same each time, table unchanged."""
        table = dict(self.good_table)
        target = self._parse(table)
        self.assertEqual((target.id, target.kind), ("desk1", self.kind.name))
        self.assertEqual(table, dict(self.good_table))
        self.assertEqual(target, self._parse(table))

    def test_refuses_unknown_keys(self: Any) -> None:
        """A key it does not know is refused by its full path."""
        table = {**self.good_table, "no_such_key": "private-value"}
        refusal = self.assertRaises(ConfigError, self._parse, table)
        self.assertEqual(refusal.where, "connector.resources[0].no_such_key")
        self.assertNotIn("private-value", str(refusal))

    def test_refuses_wrong_types(self: Any) -> None:
        """A value of a wrong type is refused below the table's path, never a crash."""
        for key in self.good_table:
            refusal = self.assertRaises(
                ConfigError, self._parse, {**self.good_table, key: object()}
            )
            self.assertTrue(refusal.where.startswith(f"connector.resources[0].{key}"))

    def test_ports(self: Any) -> None:
        """Its ports are ports, whatever the catalog's labels say."""
        for labels in ({}, {"port": "8080"}, {"port": "-1"}, {"port": "99999"}, {"port": "²"}):
            port = self.kind.native_port(labels)
            self.assertTrue(port is None or 0 < port <= 65535, labels)
        self.assertTrue(self.kind.default_port is None or 0 < self.kind.default_port <= 65535)

    def test_endpoint_is_lazy(self: Any) -> None:
        """Making the endpoint dials nothing and starts no timer."""
        reactor = MemoryReactorClock()
        endpoint = self.kind.endpoint(reactor, self._parse(self.good_table))
        self.assertTrue(IStreamClientEndpoint.providedBy(endpoint))
        self.assertEqual((reactor.tcpClients, reactor.getDelayedCalls()), ([], []))

    def test_dials_through_the_reactor_given(self: Any) -> None:
        """Connecting uses the reactor it was given, so that the Connector's reach holds."""
        reactor = MemoryReactorClock()
        target = evolve(self._parse(self.good_table), address="192.0.2.7:7000")
        connecting = self.kind.endpoint(reactor, target).connect(Factory.forProtocol(Protocol))
        connecting.addErrback(lambda failure: None)
        self.assertEqual([dialed[1] for dialed in reactor.tcpClients], [7000])
        connecting.cancel()
