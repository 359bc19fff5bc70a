"""``svc authority store``, and how commands open a store directly.

These work whether or not a role runs: looking takes no lock and creates
nothing; migrating waits for the one writer to leave.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click
from attrs import frozen

from svc import __version__
from svc.cli.control import authority_settings
from svc.cli.output import document, say
from svc.errors import (
    ConfigError,
    Fault,
    MigrationsBroken,
    MigrationsPending,
    StoreUnavailable,
    SvcError,
    UnknownApplied,
)
from svc.model.migration import MigrationReport, Standing, report_lines, status_lines

if TYPE_CHECKING:
    from svc.config import RoleSettings
    from svc.interfaces.store import ITransaction

_T = TypeVar("_T")

_EXIT = {
    Standing.CURRENT: 0,
    Standing.PENDING: MigrationsPending.exit_code,
    Standing.UNKNOWN_APPLIED: UnknownApplied.exit_code,
    Standing.BROKEN: MigrationsBroken.exit_code,
}


@frozen
class StorePlace:
    """A store and the drop-in that opens it; ``factory`` is an ``IStoreFactory``."""

    factory: Any
    url: str

    def look(self, desc: str, fn: Callable[[ITransaction], _T]) -> _T:
        """Run *fn* over one snapshot of the store, at once and read-only.

        Raises:
            StoreUnavailable: there is no store, or it does not answer.
        """
        from svc.model.audit import chain_hash

        store = self.factory.open_read_only(self.url, chain_hash)
        reading = store.read(desc, fn)
        try:
            with legible(desc):
                reading.send(None)
        except StopIteration as done:
            result: _T = done.value
            return result
        raise SvcError(f"store: {desc}: the answer did not come at once", fault=Fault.UNAVAILABLE)


@contextmanager
def legible(desc: str) -> Iterator[None]:
    """Whatever a damaged store makes of being read ends in one sentence.

    Raises:
        StoreUnavailable: in the place of any error that is not ours.
    """
    try:
        yield
    except (SvcError, StopIteration):
        raise
    except Exception as failed:
        raise StoreUnavailable(
            f"store: {desc}: it cannot be read ({type(failed).__name__}); "
            "see what is wrong with: svc authority audit verify"
        ) from failed


def store_place(settings: RoleSettings) -> StorePlace:
    """The store that the configuration names; nothing is opened yet.

    Raises:
        ConfigError: no enabled drop-in opens such a store, or the URL is not of its form.
        PluginError: a drop-in cannot be loaded.
    """
    from svc.interfaces.store import IStoreFactory
    from svc.plugin import load

    place = settings.store_url
    assert place is not None  # the reading refuses a file without it
    if place.scheme not in settings.plugins.stores:
        raise ConfigError(
            "store_url",
            f"scheme {place.scheme}: no store drop-in of that name is enabled in plugins.stores",
        )
    (loaded,) = load(IStoreFactory, "store", [place.scheme])
    found = StorePlace(loaded.provider, f"{place.scheme}://{place.rest}")
    found.factory.check(found.url)
    return found


@click.group(no_args_is_help=False)
def store() -> None:
    """The store, opened directly: the Authority need not run."""


@store.command("migrate")
@click.option(
    "--check", is_flag=True, help="Only say what is pending; changes and creates nothing."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_context
def migrate(context: click.Context, check: bool, as_json: bool) -> int:
    """Apply what is pending.

    Status 0: applied or current; 3: pending (with --check); 4: the store is
    newer than this build; 5: another writer did not leave within 120 s.
    """
    place = store_place(authority_settings(context))
    if check:
        return _check(place, as_json)
    return apply(place, as_json, time.time, time.monotonic)


def apply(
    place: StorePlace, as_json: bool, now: Callable[[], float], monotonic: Callable[[], float]
) -> int:
    """Apply what is pending and print what was done; the exit status.

    Raises:
        LockTimeout: another writer did not leave in time.
        UnknownApplied, MigrationsBroken, StoreUnavailable: nothing was changed.
    """
    with legible("migration status"):
        status = place.factory.migration_status(place.url)
    if status.standing is Standing.CURRENT:
        # Nothing to wait for the store's writer for.
        report = MigrationReport((), status.level, status.count)
    else:
        report = place.factory.migrate(place.url, __version__, now, monotonic)
    if as_json:
        said = {"applied": list(report.applied), "level": report.level, "count": report.count}
        say([document(said)])
    else:
        say(report_lines(report))
    return 0


def _check(place: StorePlace, as_json: bool) -> int:
    with legible("migration status"):
        status = place.factory.migration_status(place.url)
    if as_json:
        said = {
            "standing": status.standing.value.replace("_", "-"),
            "ids": list(status.ids),
            "level": status.level or None,
            "count": status.count,
        }
        say([document(said)])
    else:
        say(status_lines(status))
    return _EXIT[status.standing]
