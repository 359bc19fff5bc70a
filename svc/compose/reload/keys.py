"""The keys of this process that take effect without a restart, and what applies each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator
from functools import partial, reduce
from typing import Generic, TypeVar

from attrs import define, field

from svc.config import RoleSettings
from svc.config.keys import KEYS

_T = TypeVar("_T")

Apply = Callable[[RoleSettings], object]
"""Makes settings take effect; must not fail."""

Prepare = Callable[[RoleSettings], Callable[[], object]]
"""Looks at settings and gives back what makes them take effect.  Raises SvcError: they cannot."""


Record = Callable[[int | None, tuple[str, ...], str], Awaitable[None]]
"""``await record(uid, keys, digest)``: the uid of who asked, None: a signal; the changed keys; and
the SHA-256 of the file."""


async def _unrecorded(uid: int | None, keys: tuple[str, ...], digest: str) -> None:
    """Only an Authority has a log to write to."""


@define
class InForce(Generic[_T]):
    """A value made from settings, which a reload replaces."""

    value: _T

    def __call__(self) -> _T:
        """The one in force."""
        return self.value

    def take(self, value: _T) -> None:
        """Another one is in force from now on."""
        self.value = value


@define
class ReloadableKeys:
    """See the module.

    Attributes:
        settings: Those in force.
        record: Records that keys are about to change.
    """

    settings: RoleSettings
    record: Record = field(default=_unrecorded, init=False)
    _prepares: list[tuple[frozenset[str], Prepare]] = field(factory=list, init=False)

    def read(self, *paths: str) -> None:
        """These keys are read from :attr:`settings` each time they are used."""
        self.on(*paths, apply=lambda settings: None)

    def on(self, *paths: str, apply: Apply) -> None:
        """These keys take effect by *apply*."""
        self.prepare(*paths, by=lambda settings: partial(apply, settings))

    def prepare(self, *paths: str, by: Prepare) -> None:
        """These keys take effect by what *by* gives back, once nothing refuses them."""
        unknown = set(paths) - {key.path for key in KEYS if key.reloads}
        assert not unknown, f"not reloadable by the table of keys: {unknown}"
        self._prepares.append((frozenset(paths), by))

    def recorded_by(self, record: Record) -> None:
        """Have each change recorded before it takes effect."""
        self.record = record

    def take(self, settings: RoleSettings) -> None:
        """These are in force from now on."""
        self.settings = settings

    @property
    def paths(self) -> frozenset[str]:
        """The keys that something here applies."""
        return frozenset[str]().union(*(paths for paths, _ in self._prepares))

    def prepared(
        self, changed: Collection[str], settings: RoleSettings
    ) -> list[Callable[[], object]]:
        """What makes the *changed* keys of *settings* take effect.

        Raises:
            SvcError: they cannot; nothing was changed.
        """
        return [by(settings) for by in self.preparing(changed)]

    def preparing(self, changed: Collection[str]) -> list[Prepare]:
        """The parts that apply the *changed* keys."""
        return [by for paths, by in self._prepares if paths.intersection(changed)]


def changed_keys(before: RoleSettings, after: RoleSettings) -> Iterator[str]:
    """The keys that the role reads and that have another value, in the order of the reference."""
    for key in KEYS:
        if key.later or before.role not in key.roles:
            continue
        if _value(before, key.path) != _value(after, key.path):
            yield key.path


def _value(settings: RoleSettings, path: str) -> object:
    return reduce(getattr, path.split("."), settings)


def is_reloadable(path: str) -> bool:
    """Whether the table of keys says that the key takes effect without a restart."""
    return any(key.path == path and key.reloads for key in KEYS)
