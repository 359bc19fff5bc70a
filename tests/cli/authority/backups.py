"""An Authority as it lies there, with keys and identity, to be backed up and put back."""

from __future__ import annotations

import os
import shutil
import time
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from pyrage import x25519
from twisted.trial.unittest import SynchronousTestCase

from svc.authority.state.recorder import operator
from svc.authority.state.rewind import RESTORE_REQUEST
from svc.interfaces.store import IStore
from svc.model.audit.events import STORE_RESTORED
from svc.model.audit.record import SignedHead
from svc.model.canonical import Json
from svc.pki.enroll import CertificateIssuer
from svc.pki.identity_store import IdentityStore
from svc.pki.join import enroll_authority
from svc.pki.keyring import create_cluster
from svc.store.postgres.factory import PostgresFactory
from svc.store.sqlite.factory import SqliteFactory
from tests.cli.authority.logs import LoggedPlace
from tests.cli.terminal import CLUSTER, Outcome, Place, recorder
from tests.pki.support import Counted, World
from tests.support.postgres import empty_database

SQLITE, POSTGRES = "sqlite", "postgresql"


@cache
def _identity() -> Any:
    return x25519.Identity.generate()


RECIPIENT = str(_identity().to_public())


def key_file(case: SynchronousTestCase) -> Path:
    """The private half of :data:`RECIPIENT`, as its owner keeps it."""
    path = Path(os.path.abspath(case.mktemp()))
    path.write_text(f"# test\n{_identity()}\n")
    path.chmod(0o600)
    return path


class EmptyPlace(Place):
    """A configuration that names a place where nothing is."""

    factory: Any

    def __init__(
        self, case: SynchronousTestCase, backend: str = SQLITE, cluster: str = CLUSTER
    ) -> None:
        Place.__init__(self, case)  # of a place with a log, this much
        text = self.config.read_text().replace(CLUSTER, cluster)
        if backend == POSTGRES:
            text = text.replace(self.url, url := empty_database(case))
            text += f'[plugins]\nstores = ["{POSTGRES}"]\n'
            self.url, self.factory = url, PostgresFactory(time.monotonic)
        else:
            self.factory = SqliteFactory()
        self.config.write_text(text)

    def files(self) -> dict[str, str]:
        """Every file and link below the place, by the digest of its bytes."""
        return {
            str(path.relative_to(self.base)): sha256(
                os.readlink(path).encode() if path.is_symlink() else path.read_bytes()
            ).hexdigest()
            for path in sorted(self.base.rglob("*"))
            if path.is_symlink() or path.is_file()
        }

    def restore(self, out: Path, key: Path, *words: str) -> Outcome:
        """`backup restore` to this place."""
        return self.run("backup", "restore", str(out), "--identity", str(key), *words)


class KeptPlace(EmptyPlace, LoggedPlace):
    """The place of an Authority that has written records, and has ended."""

    def __init__(
        self, case: SynchronousTestCase, backend: str = SQLITE, cluster: str = CLUSTER
    ) -> None:
        EmptyPlace.__init__(self, case, backend, cluster)
        self.at = time.time()
        self.case = case
        self.key = key_file(case)
        keys = create_cluster(self.state / "keys", cluster, time.time, Counted())
        enroll_authority(
            CertificateIssuer(keys, 86400.0, 86400.0), IdentityStore(self.state), time.time
        )
        IdentityStore(self.state).audit_key()
        self.writes, self.world = recorder(), World(cluster)
        self.world.keys = keys
        self.factory.migrate(self.url, "test", lambda: 0.0, lambda: 0.0)

    async def begin(self, count: int = 40) -> IStore:
        """The open store, with so many records and some more that hide values."""
        store = self.open()
        await store.run("a fact", lambda tx: tx.schema.settle("cluster", CLUSTER))
        await self.fill(store, count)
        await self.introduce(store)
        return store

    async def written(self, count: int = 40) -> None:
        """Write records, and end."""
        await (await self.begin(count)).close()

    async def go_on(self, lost: SignedHead, shared: int) -> None:
        """Give a line of the log up, as a start does that finds the operator's request."""
        store = self.open()
        said: dict[str, Json] = {
            "lost_size": lost.head.tree_size,
            "lost_hash": lost.hash.hex(),
            "shared_size": shared,
            "until": lost.head.time,
        }
        row = await store.run(
            "go on",
            lambda tx: self.writes.append(tx, STORE_RESTORED, operator(7), details=said),
        )
        self.at += 60
        await self.sign(store, restored_seq=row.seq)
        await store.close()
        (self.state / "anchor" / RESTORE_REQUEST).unlink()

    def create(self, *words: str, out: Path | None = None) -> tuple[Outcome, Path]:
        """`backup create` into a new directory."""
        out = out or Path(os.path.abspath(self.case.mktemp()))
        return self.run(
            "backup", "create", "--out", str(out), "--encrypt-to", RECIPIENT, *words
        ), out

    def made(self, *words: str) -> Path:
        """The directory of a backup that was made."""
        outcome, out = self.create(*words)
        self.case.assertEqual(outcome.status, 0, outcome.stderr)
        return out

    def verify(self, out: Path, key: Path | None = None) -> Outcome:
        """`backup verify`."""
        return self.run("backup", "verify", str(out), "--identity", str(key or self.key))

    def lose(self, *, anchor: bool = False) -> None:
        """Lose everything of a store in a file, but the anchor unless that too."""
        for each in self.state.iterdir():
            if each.name != "anchor" or anchor:
                shutil.rmtree(each) if each.is_dir() else each.unlink()
