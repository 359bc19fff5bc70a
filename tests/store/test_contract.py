"""All stores of ours keep the contract that other people's stores are held to."""

from __future__ import annotations

from twisted.internet import reactor
from twisted.trial.unittest import TestCase

from svc.interfaces.store import IStore, StoreNeeds
from svc.plugins.store_postgresql import store_postgresql
from svc.store.sqlite.factory import SqliteFactory
from svc.testing.contracts.store import StoreContract
from tests.store.places import migrated_url
from tests.support.postgres import migrated_database


class MemoryStoreTests(StoreContract, TestCase):
    """The store in memory."""

    reactor = reactor

    def open_store(self, needs: StoreNeeds) -> IStore:
        return SqliteFactory().open_memory(needs)


class FileStoreTests(StoreContract, TestCase):
    """The store in a file, with its threads."""

    reactor = reactor

    def open_store(self, needs: StoreNeeds) -> IStore:
        return SqliteFactory().open(migrated_url(self), needs)


class PostgresStoreTests(StoreContract, TestCase):
    """The store in PostgreSQL."""

    reactor = reactor

    def open_store(self, needs: StoreNeeds) -> IStore:
        return store_postgresql.open(migrated_database(self), needs)
