"""What every store keeps.  Mix into a Twisted TestCase and say how yours is opened.

::

    class AcmeStoreTests(StoreContract, TestCase):
        reactor = reactor

        def open_store(self, needs):
            return AcmeFactory().open(self.fresh_url(), needs)

``open_store`` is called once a test, on the reactor's thread, and gives a
migrated store without a row.  The facets have their own pages,
``facet_contract``, ``inventory_contract``, ``ledger_contract`` and
``queue_contract``; this one is about transactions.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any

from twisted.internet.defer import Deferred, gatherResults
from zope.interface.verify import verifyObject

from svc.errors import AlreadyExists, StoreUnavailable
from svc.interfaces.access_requests import IAccessRequests
from svc.interfaces.account import ISecrets
from svc.interfaces.discovered import ICatalogChanges, IPublications, IScopes
from svc.interfaces.expected import IExpectedKeys
from svc.interfaces.facets import (
    IAuditLog,
    ICatalog,
    ICertificates,
    IHeads,
    IKeyrings,
    ILease,
    ILogRepair,
    INodes,
    IPeople,
    IPeopleChanges,
    IPolicies,
    ISchema,
    ISessions,
    IStoredLog,
    ITokens,
)
from svc.interfaces.inventory import IBindings, IInventories, INodeHealth
from svc.interfaces.outbox import IOrigins, IOutbox, ISpools
from svc.interfaces.sign_in import ISignIns
from svc.interfaces.store import IStore, ITransaction, StoreNeeds
from svc.testing.contracts.discovered import DiscoveredContract
from svc.testing.contracts.facets import FacetContract
from svc.testing.contracts.health import HealthContract
from svc.testing.contracts.inventory import InventoryContract
from svc.testing.contracts.ledger import LedgerContract
from svc.testing.contracts.queue import QueueContract
from svc.testing.contracts.roots import RootContract

FACETS = {
    "schema": ISchema,
    "lease": ILease,
    "tokens": ITokens,
    "expected": IExpectedKeys,
    "sign_ins": ISignIns,
    "secrets": ISecrets,
    "access": IAccessRequests,
    "nodes": INodes,
    "people": IPeople,
    "people_changes": IPeopleChanges,
    "certificates": ICertificates,
    "catalog": ICatalog,
    "bindings": IBindings,
    "catalog_changes": ICatalogChanges,
    "scopes": IScopes,
    "publications": IPublications,
    "inventories": IInventories,
    "health": INodeHealth,
    "policies": IPolicies,
    "sessions": ISessions,
    "audit": IAuditLog,
    "stored": IStoredLog,
    "repair": ILogRepair,
    "heads": IHeads,
    "keyrings": IKeyrings,
    "outbox": IOutbox,
    "spools": ISpools,
    "origins": IOrigins,
}


def plain_chain_hash(seq: int, prev: bytes, canonical: bytes) -> bytes:
    """A chain hash for tests: everything a link depends on, nothing of its real form."""
    return sha256(seq.to_bytes(8, "big") + prev + canonical).digest()


class Stopped(Exception):
    """What a test's function raises to undo its transaction."""


class StoreContract(
    FacetContract,
    InventoryContract,
    HealthContract,
    DiscoveredContract,
    LedgerContract,
    RootContract,
    QueueContract,
):
    """The contract of IStore.

    Attributes:
        reactor: The reactor your tests run on.
        open_store: ``open_store(needs)`` gives an empty, migrated store.
    """

    reactor: Any
    open_store: Callable[[StoreNeeds], IStore]

    def setUp(self: Any) -> None:
        """Open the store that the test is about, and see that it is closed."""
        self.needs = StoreNeeds(
            clock=self.reactor,
            now=lambda: 0.0,
            call_from_thread=self.reactor.callFromThread,
            chain_hash=plain_chain_hash,
        )
        self.store = self.open_store(self.needs)
        self.addCleanup(lambda: Deferred.fromCoroutine(self.store.close()))

    async def test_keeps_the_interfaces(self: Any) -> None:
        """The store and every facet have each member of their interface."""
        verifyObject(IStore, self.store)

        def look(tx: ITransaction) -> None:
            verifyObject(ITransaction, tx)
            for name, interface in FACETS.items():
                verifyObject(interface, getattr(tx, name))
                self.assertLessEqual(len(list(interface.names())), 8, name)

        await self.store.run("look", look)

    async def test_gives_what_the_function_gives(self: Any) -> None:
        """The caller receives the very value its function returned."""
        value = object()
        self.assertIs(await self.store.run("give", lambda tx: value), value)
        self.assertIs(await self.store.read("give", lambda tx: value), value)

    async def test_reads_what_was_written(self: Any) -> None:
        """What a finished call wrote is seen by the next look."""
        await self.store.run("write", lambda tx: tx.people.add_group("ops", 1.0))
        self.assertEqual(await self.store.read("look", lambda tx: tx.people.groups()), ("ops",))

    async def test_undoes_what_fails(self: Any) -> None:
        """A function that raises leaves nothing behind, and its error reaches the caller."""

        def fail(tx: ITransaction) -> None:
            tx.people.add_group("ops", 1.0)
            tx.audit.append(b'{"event":"group.add"}')
            raise Stopped

        with self.assertRaises(Stopped):
            await self.store.run("fail", fail)
        seen = await self.store.read("look", lambda tx: (tx.people.groups(), tx.audit.head().seq))
        self.assertEqual(seen, ((), 0))

    async def test_one_failure_spares_its_neighbours(self: Any) -> None:
        """Of calls made at once each stands or falls alone, and the chain has no hole."""

        def work(number: int) -> Callable[[ITransaction], int]:
            def append(tx: ITransaction) -> int:
                link = tx.audit.append(b'{"event":"e%d"}' % number)
                if number % 3 == 0:
                    raise Stopped
                return link.seq

            return append

        asked = [Deferred.fromCoroutine(self.store.run("work", work(n))) for n in range(60)]
        failed = [each.addErrback(lambda f: f.trap(Stopped)) for each in asked]
        given = await gatherResults(failed)
        kept = [each for each in given if each is not Stopped]
        self.assertEqual(sorted(kept), list(range(1, 41)))
        await self.assert_chain_holds(40)

    async def test_a_caught_refusal_writes_nothing(self: Any) -> None:
        """A function may catch a facet's refusal and go on; the rest of it is kept."""

        def twice(tx: ITransaction) -> bool:
            tx.people.add_group("ops", 1.0)
            try:
                tx.people.add_group("ops", 2.0)
            except AlreadyExists:
                return True
            return False

        self.assertTrue(await self.store.run("twice", twice))
        self.assertEqual(await self.store.read("look", lambda tx: tx.people.groups()), ("ops",))

    async def test_looking_writes_nothing(self: Any) -> None:
        """A look that tries to write is refused and leaves nothing."""
        with self.assertRaises(Exception):  # noqa: B017 - which one is the backend's
            await self.store.read("write", lambda tx: tx.people.add_group("ops", 1.0))
        self.assertEqual(await self.store.read("look", lambda tx: tx.people.groups()), ())
        await self.store.run("write", lambda tx: tx.people.add_group("ops", 1.0))

    async def test_closed(self: Any) -> None:
        """A closed store refuses every call, and closing it again is no fault."""
        await self.store.close()
        await self.store.close()
        for ask in (self.store.run, self.store.read):
            with self.assertRaises(StoreUnavailable):
                await ask("late", lambda tx: None)

    async def assert_chain_holds(self: Any, length: int) -> None:
        """Every link follows from the one before."""
        rows = await self.store.read("rows", lambda tx: tx.audit.rows(1, length + 1))
        self.assertEqual([row.seq for row in rows], list(range(1, length + 1)))
        prev = bytes(32)
        for row in rows:
            self.assertEqual(row.prev_hash, prev)
            prev = plain_chain_hash(row.seq, prev, row.canonical)
            self.assertEqual(row.hash, prev)
