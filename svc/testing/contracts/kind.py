"""What every resource kind keeps.  Mix into a TestCase and name your kind's drop-in.

::

    class VncTests(KindContract, SynchronousTestCase):
        word = "vnc"
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

from svc.compose.drop_ins import KindSide, load_kinds
from svc.errors import ConfigError, Malformed
from svc.interfaces.kinds import (
    IDialer,
    IEndingDialer,
    ILimitedDialer,
    ILocalEndpoint,
    ServedKind,
    dialer_for,
    not_counted,
)
from svc.model.cluster.target import Target
from svc.model.ids import is_resource_id
from svc.model.policy.access import SESSION_REQUESTS
from svc.model.session.parameters import ceiling, resolved
from svc.policy.facts import FACTS
from svc.policy.kind_terms import kind_terms

CORE_FACTS = {fact.name for fact in FACTS}


async def _nobody(named: str) -> bytes:
    """For targets that are told nothing."""
    return b""


class KindContract:
    """The contract.

    Attributes:
        word: What operators write as ``kind``; the drop-in is ``kind_<word>``.
        good_table: A table that it accepts, without ``id`` and ``kind``.
        good_parameters: What a person may ask for, of those it takes; all that have no default.
    """

    word: str
    good_table: Mapping[str, object] = {"address": "target.example:7000"}
    good_parameters: Mapping[str, str] = {}

    @property
    def kind(self) -> ServedKind:
        """The kind with all its sides, as no single program has it."""
        return load_kinds([self.word], *KindSide).by_name[self.word]

    def _parse(self, table: Mapping[str, object]) -> Target:
        parsed: Target = self.kind.dialer.parse("desk1", table, "connector.resources[0]")
        return parsed

    def _endpoint(self, reactor: Any, target: Target) -> IStreamClientEndpoint:
        known = self.kind.terms.parameters
        held = ceiling(known, resolved(known, self.good_parameters, self.word))
        made: IStreamClientEndpoint = dialer_for(
            self.kind.dialer, "p" * 26, _nobody, None
        ).endpoint(reactor, target, held)
        return made

    def test_keeps_the_interfaces(self: Any) -> None:
        """Each side has every member of its interface, with its signature."""
        verifyObject(IDialer, self.kind.dialer)
        verifyObject(ILocalEndpoint, self.kind.local)

    def test_words(self: Any) -> None:
        """Its name and metric label are plain words, and its actions count as known requests."""
        self.assertTrue(is_resource_id(self.kind.name))
        self.assertTrue(self.kind.protocol.isidentifier() and self.kind.protocol.islower())
        self.assertLessEqual(set(self.kind.terms.actions.values()), SESSION_REQUESTS)

    def test_terms(self: Any) -> None:
        """The action that opens a session is one of its actions."""
        terms = self.kind.terms
        self.assertIn(terms.open_action, terms.actions)
        self.assertTrue(terms.entity_type.isidentifier())

    def test_operations(self: Any) -> None:
        """A grant may be limited to what actions of the kind decide, and its dialer obeys."""
        terms = self.kind.terms
        self.assertLessEqual({one.action for one in terms.operations.values()}, set(terms.actions))
        if terms.operations:
            verifyObject(ILimitedDialer, self.kind.dialer)
            verifyObject(IDialer, self.kind.dialer.limited(frozenset()))

    def test_rights(self: Any) -> None:
        """Rights are what actions of the kind decide, and a dialer holds a session to them."""
        terms = self.kind.terms
        self.assertLessEqual({one.action for one in terms.rights.values()}, set(terms.actions))
        if terms.rights:
            verifyObject(IEndingDialer, self.kind.dialer)
            verifyObject(IDialer, self.kind.dialer.ending(frozenset(), "", not_counted))

    def test_parameters(self: Any) -> None:
        """What it takes makes terms, and its dialer enforces what its ceiling names."""
        known = self.kind.terms.parameters
        asked = resolved(known, self.good_parameters, self.word)
        self.assertLessEqual(
            set(ceiling(known, asked)), set(getattr(self.kind.dialer, "enforces", ()))
        )
        facts = {fact.name for fact in kind_terms(self.kind.terms).facts}
        self.assertLessEqual({name for name in known if known[name].fact}, facts | CORE_FACTS)
        refusal = self.assertRaises(
            Malformed, resolved, known, {"no_such_parameter": "x"}, self.word
        )
        self.assertEqual(refusal.reason, "unknown_parameter")

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
            port = self.kind.local.native_port(labels)
            self.assertTrue(port is None or 0 < port <= 65535, labels)

    def test_endpoint_is_lazy(self: Any) -> None:
        """Making the endpoint dials nothing and starts no timer."""
        reactor = MemoryReactorClock()
        endpoint = self._endpoint(reactor, self._parse(self.good_table))
        self.assertTrue(IStreamClientEndpoint.providedBy(endpoint))
        self.assertEqual((reactor.tcpClients, reactor.getDelayedCalls()), ([], []))

    def test_dials_through_the_reactor_given(self: Any) -> None:
        """Connecting uses the reactor it was given, so that the Connector's reach holds."""
        reactor = MemoryReactorClock()
        target = evolve(self._parse(self.good_table), address="192.0.2.7:7000")
        endpoint = self._endpoint(reactor, target)
        connecting = endpoint.connect(Factory.forProtocol(Protocol))
        connecting.addErrback(lambda failure: None)
        self.assertEqual([dialed[1] for dialed in reactor.tcpClients], [7000])
        connecting.cancel()
