"""Opens a store from outside, whether or not its Authority runs.

Looking takes no lock and creates nothing.  Commands and the demo read by it,
and the commands migrate what it names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from attrs import frozen

from svc.config import RoleSettings
from svc.errors import ConfigError, Fault, StoreUnavailable, SvcError
from svc.interfaces.store import IStoreFactory, ITransaction
from svc.model.audit.record import chain_hash
from svc.plugin import load

_T = TypeVar("_T")


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
        store = self.factory.open_read_only(self.url, chain_hash)
        reading = store.read(desc, fn)
        try:
            with legible(desc):
                reading.send(None)
        except StopIteration as done:
            result: _T = done.value
            return result
        raise SvcError(
            f"store: {desc}: the answer did not arrive immediately", fault=Fault.UNAVAILABLE
        )


def why_unreadable(failed: Exception) -> str:
    """What is wrong with a store that answered a read with *failed*.

    A driver's own text may quote what is stored, so it is not shown.
    """
    kind = type(failed)
    if kind.__module__ == "sqlite3" and kind.__name__ == "DatabaseError":
        return "the store is not a readable SQLite database"
    return kind.__name__


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
            f"store: {desc}: the store cannot be read ({why_unreadable(failed)}); to find the "
            "fault, run: svc authority audit verify"
        ) from failed


def store_place(settings: RoleSettings) -> StorePlace:
    """The store that the configuration names; nothing is opened yet.

    Raises:
        ConfigError: no enabled drop-in opens such a store, or the URL is malformed.
        PluginError: a drop-in cannot be loaded.
    """
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
