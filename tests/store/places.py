"""Store files for tests: private directories, fresh and migrated, and their urls."""

from __future__ import annotations

import os
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from twisted.internet import reactor
from twisted.trial.unittest import SynchronousTestCase

from svc.interfaces.store import StoreNeeds
from svc.model.store.migration import MigrationReport
from svc.store.sqlite.factory import SqliteFactory
from svc.testing.contracts.store import plain_chain_hash
from svc.testing.gateway.processes import Ran, run
from tests.support.program import program

ROOT = Path(__file__).resolve().parent.parent.parent


def fresh_url(case: SynchronousTestCase) -> str:
    """A URL in a private directory where there is no store yet."""
    directory = os.path.abspath(case.mktemp())
    os.makedirs(directory, mode=0o700)
    return f"sqlite://{directory}/store.db"


def migrated_url(case: SynchronousTestCase) -> str:
    """A URL of an empty store that this build may open."""
    url = fresh_url(case)
    for name, data in _migrated().items():
        path = Path(path_of(url)).with_name(name)
        path.touch(mode=0o600)
        path.write_bytes(data)
    return url


@cache
def _migrated() -> dict[str, bytes]:
    """What lies in the directory of such a store; it is migrated once."""
    with tempfile.TemporaryDirectory() as directory:
        url = f"sqlite://{directory}/store.db"
        migrate(url)
        return files_beside(url)


def migrate(url: str, factory: SqliteFactory | None = None) -> MigrationReport:
    """Migrate a store that nobody else holds, at the beginning of time."""
    return (factory or SqliteFactory()).migrate(url, "test", lambda: 0.0, lambda: 0.0)


def path_of(url: str) -> str:
    """The file of a store's URL."""
    return url.removeprefix("sqlite://")


def files_beside(url: str) -> dict[str, bytes]:
    """Every file in the store's directory and what is in it."""
    directory = Path(path_of(url)).parent
    return {each.name: each.read_bytes() for each in sorted(directory.iterdir())}


_from_thread: Any = reactor.callFromThread  # type: ignore[attr-defined]


def real_needs(clock: Any = reactor) -> StoreNeeds:
    """What a store is given in a test that runs on the real reactor."""
    return StoreNeeds(
        clock=clock, now=lambda: 0.0, call_from_thread=_from_thread, chain_hash=plain_chain_hash
    )


def run_child(script: str, *arguments: str, timeout: float = 60) -> Ran:
    """Run *script* in a process of its own that knows this checkout."""
    return run(program(script, *arguments), ROOT, seconds=timeout)
