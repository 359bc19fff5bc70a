"""What was decided is remembered for the very same facts, policy, entities and second."""

from __future__ import annotations

from types import MappingProxyType

from twisted.trial.unittest import SynchronousTestCase

from svc.proxy.sessions.remembered import MOST, RememberedDecisions

BASIS = (1, 1, 1_700_000_000)


class RememberedTests(SynchronousTestCase):
    """One session's."""

    def setUp(self) -> None:
        self.remembered: RememberedDecisions[str] = RememberedDecisions()
        self.facts = MappingProxyType({"effects": frozenset({"read"})})

    def kept(self) -> None:
        """One decision."""
        self.remembered.find(BASIS, "dbQuery", self.facts)
        self.remembered.keep(BASIS, "dbQuery", self.facts, "allow")

    def test_another_basis(self) -> None:
        """A new policy, new entities or the next second: everything is decided again."""
        for at in range(3):
            self.kept()
            self.assertEqual(self.remembered.find(BASIS, "dbQuery", self.facts), "allow")
            changed = tuple(one + (place == at) for place, one in enumerate(BASIS))
            self.assertIsNone(self.remembered.find(changed, "dbQuery", self.facts))
            self.assertIsNone(self.remembered.find(BASIS, "dbQuery", self.facts))

    def test_other_facts(self) -> None:
        """Another action, or facts that only look the same, are decided by themselves."""
        self.kept()
        self.assertIsNone(self.remembered.find(BASIS, "dbOpaque", self.facts))
        same = MappingProxyType(dict(self.facts))
        self.assertIsNone(self.remembered.find(BASIS, "dbQuery", same))

    def test_facts_that_can_change(self) -> None:
        """They are never remembered, nor is what was decided by another basis meanwhile."""
        facts = {"effects": frozenset({"read"})}
        self.remembered.find(BASIS, "dbQuery", facts)
        self.remembered.keep(BASIS, "dbQuery", facts, "allow")
        self.assertIsNone(self.remembered.find(BASIS, "dbQuery", facts))
        self.remembered.keep((2, 1, 1), "dbQuery", self.facts, "allow")
        self.assertIsNone(self.remembered.find(BASIS, "dbQuery", self.facts))

    def test_no_more_than_so_many(self) -> None:
        """A session that asks for ever new things is decided as before."""
        many = [MappingProxyType({"effects": frozenset({str(at)})}) for at in range(MOST + 1)]
        self.remembered.find(BASIS, "dbQuery", many[0])
        for one in many:
            self.remembered.keep(BASIS, "dbQuery", one, "allow")
        self.assertEqual(self.remembered.find(BASIS, "dbQuery", many[MOST - 1]), "allow")
        self.assertIsNone(self.remembered.find(BASIS, "dbQuery", many[MOST]))
