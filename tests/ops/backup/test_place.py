"""Which files of an Authority's directory are its state, and so are put back by a restore."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from attrs import frozen
from twisted.trial.unittest import SynchronousTestCase

from svc.ops.backup.place import BackupPlace


@frozen
class Copies:
    """A store in files."""

    def files(self, url: str) -> tuple[str, ...]:
        """The one that the URL names."""
        return (url,)


@frozen
class Store:
    """Where the store is."""

    url: str


class SourceTests(SynchronousTestCase):
    """A state directory in which the configuration lies, too, as `svc init` may put it."""

    def test_a_configuration_beside_the_state(self) -> None:
        """It is no state: put back it would lie over today's; what lies deeper is."""
        base = Path(self.mktemp()).absolute()
        own = base / "authority"
        files = {
            "gateway.toml": False,
            "authority/authority.toml": False,
            "authority/store.db": False,
            "authority/keys/root.pem": True,
            "authority/keys/odd.toml": True,
            "notes.txt": True,
        }
        for name in files:
            (base / name).parent.mkdir(parents=True, exist_ok=True)
            (base / name).write_text(name)
        store: Any = Store(str(own / "store.db"))
        settings: Any = None
        place = BackupPlace(
            settings=settings, store=store, copies=Copies(), base=base, own=own, uid=os.geteuid()
        )
        found = {one.path for one in place.sources()}
        self.assertEqual(found, {f"state/{name}" for name, is_state in files.items() if is_state})
