"""The store by itself: what every store keeps, and what is its own."""

from __future__ import annotations

from svc.plugins.store_ram import store_ram
from twisted.internet import reactor
from twisted.trial.unittest import SynchronousTestCase, TestCase
from zope.interface.verify import verifyObject

from svc.errors import ConfigError, StoreUnavailable
from svc.interfaces.store import IStore, IStoreFactory, StoreNeeds
from svc.model.audit.record import chain_hash
from svc.testing.contracts.store import StoreContract


class RamStoreTests(StoreContract, TestCase):
    """The contract."""

    reactor = reactor

    def open_store(self, needs: StoreNeeds) -> IStore:
        """An empty one."""
        return store_ram.open("ram://rehearsal", needs)


class FactoryTests(SynchronousTestCase):
    """Which URLs are its own, and that nobody looks into it from outside."""

    def test_factory(self) -> None:
        """The drop-in is a whole factory under the word that its URLs begin with."""
        verifyObject(IStoreFactory, store_ram)
        store_ram.check("ram://rehearsal")
        for url in ("ram://", "ram://A", "ram:rehearsal", "sqlite:///a.db"):
            refusal = self.assertRaises(ConfigError, store_ram.check, url)
            self.assertEqual(refusal.where, "store_url")
        self.assertRaises(StoreUnavailable, store_ram.open_read_only, "ram://rehearsal", chain_hash)
