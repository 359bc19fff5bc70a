"""An Authority over the store: named in the configuration, and used."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.gateway import init_gateway
from svc.testing.gateway.settings import AUTHORITY


class AuthorityTests(SynchronousTestCase):
    """A real process."""

    def test_starts_and_keeps(self) -> None:
        """It is ready over this store, keeps what it is told, and leaves no file of a store."""
        gateway = init_gateway()
        self.addCleanup(gateway.end)
        named = {"store_url": "ram://rehearsal", "plugins.stores": ["ram"]}
        gateway.files.write(AUTHORITY, gateway.files.table(AUTHORITY) | named)
        gateway.make_authority()
        gateway.operator("groups", "add", "ops")
        self.assertGreater(gateway.status()["audit_seq"], 0)
        self.assertFalse(gateway.files.store.exists())
