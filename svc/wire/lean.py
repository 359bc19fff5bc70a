"""Reduces the memory that ``h2`` and ``hpack`` use for every connection, and a cost of each frame.

A gateway holds thousands of connections that say nothing for hours, and most of what one of them
weighs in Python is containers made for more than they ever hold: an empty deque takes 760 bytes,
and ``h2`` keeps one for each of up to nine settings, of either side.  What is here holds the same
values and behaves as what it stands for; ``machine`` puts it in its place.

What a frame does is found in tables by two members of enums, whose hash is a function of Python:
:func:`_hash_quickly` gives them that of the values they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from types import MappingProxyType
from typing import Any, SupportsIndex

from h2 import stream as h2_stream
from h2.config import H2Configuration
from h2.connection import (
    ConnectionInputs,
    ConnectionState,
    H2Connection,
    H2ConnectionStateMachine,
)
from h2.settings import ChangedSetting, SettingCodes, Settings
from h2.stream import StreamInputs, StreamState
from hyperframe.frame import Frame

_Code = SettingCodes | int


class LeanSettings(Settings):
    """One side's settings: a value each, and the values proposed for those that are to change.

    The values are those of many connections, and held once for all that have the same: to change
    one is to take another dict.

    Raises:
        InvalidSettingsValueError: by everything that is given a value which may not be.
    """

    def __init__(
        self, *, client: bool, initial_values: Mapping[SettingCodes, int] | None = None
    ) -> None:
        # Not the base's own: it makes what this is there to spare.
        self._client = client
        for code, value in (initial_values or {}).items():
            self.validate_received_setting(code, value)
        self._now = _with(_FIRST[client], initial_values or {})
        self._proposed: dict[_Code, list[int]] | None = None

    def acknowledge(self) -> dict[_Code, ChangedSetting]:
        """The next value of every setting that has one comes into force."""
        changed: dict[_Code, ChangedSetting] = {}
        later: dict[_Code, list[int]] = {}
        for code, (value, *others) in (self._proposed or {}).items():
            # As in h2, which says int: None before the first value of a setting without default.
            before: Any = self._now.get(code)
            changed[code] = ChangedSetting(code, before, value)
            if others:
                later[code] = others
        self._proposed = later or None
        if changed:
            self._now = _with(self._now, {one: each.new_value for one, each in changed.items()})
        return changed

    @property
    def most_streams(self) -> int | None:
        """How many streams may be open; None where nothing was said of it."""
        return self._now.get(SettingCodes.MAX_CONCURRENT_STREAMS)

    def __getitem__(self, key: _Code) -> int:
        """The value in force."""
        return self._now[key]

    def __setitem__(self, key: _Code, value: int) -> None:
        """Propose a value."""
        self.validate_received_setting(key, value)
        if self._proposed is None:
            self._proposed = {}
        self._proposed.setdefault(key, []).append(value)

    def __delitem__(self, key: _Code) -> None:
        """Forget a setting."""
        self._now = {code: value for code, value in self._now.items() if code != key}
        if self._proposed is not None:
            self._proposed.pop(key, None)

    def __iter__(self) -> Iterator[_Code]:
        """Those that have a value."""
        return iter(self._now)

    def __len__(self) -> int:
        """How many have one."""
        return len(self._now)

    def __eq__(self, other: object) -> bool:
        """Each is one side of one connection."""
        return self is other

    __hash__ = object.__hash__


_FIRST: Mapping[bool, Mapping[_Code, int]] = {
    client: {
        SettingCodes.HEADER_TABLE_SIZE: 4096,
        SettingCodes.ENABLE_PUSH: int(client),
        SettingCodes.INITIAL_WINDOW_SIZE: 65_535,
        SettingCodes.MAX_FRAME_SIZE: 16_384,
        SettingCodes.ENABLE_CONNECT_PROTOCOL: 0,
    }
    for client in (True, False)
}


def _with(values: Mapping[_Code, int], others: Mapping[Any, int]) -> Mapping[_Code, int]:
    return _shared(tuple(sorted({**values, **others}.items())))


@lru_cache(64)
def _shared(values: tuple[tuple[_Code, int], ...]) -> Mapping[_Code, int]:
    """The values for everybody who has the same; nobody can change them."""
    return MappingProxyType(dict(values))


class Entries(list[tuple[bytes, bytes]]):
    """The entries of a header table, newest first: a hundred at most, so a list will do.

    Attributes:
        changes: How often the table has changed.
    """

    __slots__ = ("changes",)

    def __init__(self) -> None:
        super().__init__()
        self.changes = 0

    def appendleft(self, entry: tuple[bytes, bytes]) -> None:
        """As of a deque."""
        self.changes += 1
        name, value = entry
        if name in _SAME_FOR_MANY and len(name) + len(value) <= _LONGEST_SHARED:
            entry = _one_of_all(entry)
        self.insert(0, entry)

    def pop(self, index: SupportsIndex = -1) -> tuple[bytes, bytes]:
        """As of a deque."""
        self.changes += 1
        return super().pop(index)

    def clear(self) -> None:
        """As of a deque."""
        self.changes += 1
        super().clear()


_SAME_FOR_MANY = frozenset(
    {
        b":authority",
        b":method",
        b":path",
        b":scheme",
        b":status",
        b"content-type",
        b"grpc-accept-encoding",
        b"grpc-encoding",
        b"te",
        b"user-agent",
    }
)
"""Fields that say the same on many connections, and no secret: one entry may be held for all."""

_LONGEST_SHARED = 256
"""Of an entry that is held for all, the most bytes of its name and value: a peer chooses it, and it
stays when the peer is gone."""


@lru_cache(256)
def _one_of_all(entry: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    """The entry for every table that holds it: each weighs some 150 bytes."""
    return entry


class ClosedStreams(dict[int, Any]):
    """How streams were closed, the latest of them: when it is full, the oldest eighth is forgotten.

    As ``h2``'s own, whose ordered dict takes three times as much while nothing is in it.
    """

    __slots__ = ("_most",)

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, stream_id: int, how: Any) -> None:
        super().__setitem__(stream_id, how)
        if len(self) > self._most:
            for oldest in list(islice(self, self._most // 8 + 1)):
                del self[oldest]


class Dispatch:
    """Which method of a connection takes a frame: found by name, so that none is kept bound."""

    __slots__ = ("_connection",)

    def __init__(self, connection: H2Connection) -> None:
        self._connection = connection

    def __getitem__(self, kind: type[Frame]) -> Callable[[Frame], Any]:
        """The method; KeyError for a kind that is none."""
        method: Callable[[Frame], Any] = getattr(self._connection, _METHODS[kind])
        return method


_METHODS: Mapping[type[Frame], str] = {
    kind: method.__name__ for kind, method in H2Connection()._frame_dispatch_table.items()
}


def configuration(*, client: bool) -> H2Configuration:
    """The configuration that every connection of one side shares; it never changes."""
    return _CONFIGURATIONS[client]


_CONFIGURATIONS = {
    client: H2Configuration(
        client_side=client,
        header_encoding=None,
        validate_outbound_headers=False,
        normalize_outbound_headers=False,
    )
    for client in (True, False)
}


def _hash_quickly() -> None:
    """Replace the hash of the members that transitions are found by, and order the tables anew."""
    for sort in (ConnectionState, ConnectionInputs, StreamState, StreamInputs):
        plain = int if issubclass(sort, int) else object
        sort.__hash__ = plain.__hash__  # type: ignore[method-assign]
    tables: tuple[dict[Any, Any], ...] = (
        H2ConnectionStateMachine._transitions,
        h2_stream._transitions,
    )
    for table in tables:
        rows = list(table.items())
        table.clear()
        table.update(rows)


_hash_quickly()
