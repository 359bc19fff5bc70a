"""Drop-in: the store ``ram``, which is gone with its process; for rehearsals."""

from __future__ import annotations

import re
from collections.abc import Callable

from attrs import field, frozen
from twisted.plugin import IPlugin
from zope.interface import implementer

from svc.errors import ConfigError, StoreUnavailable
from svc.interfaces.store import ChainHash, IReadOnlyStore, IStore, IStoreFactory, StoreNeeds
from svc.model.store.migration import MigrationReport, MigrationStatus, StoreStanding
from svc.store.sqlite.factory import SqliteFactory


@implementer(IPlugin, IStoreFactory)
@frozen
class RamFactory:
    """Stores of ``ram://<word>``: the facets of svc over a database in memory."""

    name: str = "ram"
    is_shared: bool = False
    _facets: SqliteFactory = field(factory=SqliteFactory)

    def check(self, url: str) -> None:
        """A URL is a word; there is nothing in it to reach or to hide."""
        if not re.fullmatch(r"ram://[a-z0-9-]{1,40}", url):
            raise ConfigError("store_url", "write ram:// and a word of a-z, 0-9 and -")

    def migration_status(self, url: str) -> MigrationStatus:
        """It is made again at each start, by the build that opens it: nothing can be pending."""
        return MigrationStatus(StoreStanding.CURRENT)

    def migrate(
        self,
        url: str,
        binary_version: str,
        now: Callable[[], float],
        monotonic: Callable[[], float],
        wait_secs: float = 120.0,
    ) -> MigrationReport:
        """Nothing to apply, and nobody to wait for."""
        return MigrationReport((), "", 0)

    def open(self, url: str, needs: StoreNeeds) -> IStore:
        """A new store, empty and migrated."""
        self.check(url)
        return self._facets.open_memory(needs)

    def open_read_only(self, url: str, chain_hash: ChainHash) -> IReadOnlyStore:
        """No other process can look into this one."""
        raise StoreUnavailable(f"store: {url} is in the memory of its Authority alone")


store_ram = RamFactory()
