"""Both stores of ours keep the contract that other people's stores are held to."""

from __future__ import annotations

import os

from twisted.internet import reactor
from twisted.trial.unittest import TestCase

from svc.interfaces.store import IStore, StoreNeeds
from svc.store.factory import SqliteFactory
from svc.testing.store_contract import StoreContract


class MemoryStoreTests(StoreContract, TestCase):
    """The store in memory."""

    reactor = reactor

    def open_store(self, needs: StoreNeeds) -> IStore:
        return SqliteFactory().open_memory(needs)


class FileStoreTests(StoreContract, TestCase):
    """The store in a file, with its threads."""

    reactor = reactor

    def open_store(self, needs: StoreNeeds) -> IStore:
        directory = os.path.abspath(self.mktemp())
        os.makedirs(directory, mode=0o700)
        url = f"sqlite://{directory}/store.db"
        SqliteFactory().migrate(url, "test")
        return SqliteFactory().open(url, needs)
