"""All stores of ours keep the contract that other people's stores are held to."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from twisted.internet import reactor
from twisted.trial.unittest import TestCase

from svc.interfaces.store import IStore, StoreNeeds
from svc.model.audit.ledger import PersonalValue
from svc.plugins.store_postgresql import store_postgresql
from svc.store.sqlite.factory import SqliteFactory
from svc.testing.contracts.store import StoreContract
from tests.store.places import migrated_url
from tests.support.postgres import migrated_database

TEXT = '{"event":"group.add","who":"ü"}'.encode()
PERSONAL = (PersonalValue("who", bytes(16), "ann"),)


class OwnStores(StoreContract):
    """What our stores keep beside the contract."""

    async def test_appended_links_are_found_at_once(self: Any) -> None:
        """Links that were just appended are found at the first look, whatever types it gives.

        Were they not, each commit would read them a second time, and nothing else would show it.
        """
        signatures = (b"", b"signature")

        def append(tx: Any) -> list[bool]:
            links = [tx.audit.append(TEXT, PERSONAL, signature=one) for one in signatures]
            altered = evolve(links[-1], signature=b"another")
            return [
                tx.audit.ends_with(links),
                tx.audit.ends_with(links[1:]),
                tx.audit.ends_with(links[:1]),
                tx.audit.ends_with([links[0], altered]),
            ]

        for _ in range(2):
            answers = await self.store.run("append", append)
            self.assertEqual(answers, [True, True, False, False])


class MemoryStoreTests(OwnStores, TestCase):
    """The store in memory."""

    reactor = reactor

    def open_store(self, needs: StoreNeeds) -> IStore:
        return SqliteFactory().open_memory(needs)


class FileStoreTests(OwnStores, TestCase):
    """The store in a file, with its threads."""

    reactor = reactor

    def open_store(self, needs: StoreNeeds) -> IStore:
        return SqliteFactory().open(migrated_url(self), needs)


class PostgresStoreTests(OwnStores, TestCase):
    """The store in PostgreSQL."""

    reactor = reactor

    def open_store(self, needs: StoreNeeds) -> IStore:
        return store_postgresql.open(migrated_database(self), needs)
