"""What every role is given by whoever runs it, and what every role needs from the machine."""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from attrs import define, field, frozen
from twisted.application.service import Service
from twisted.internet.endpoints import TCP4ServerEndpoint, TCP6ServerEndpoint
from twisted.internet.interfaces import IAddress, IStreamServerEndpoint

from svc.compose.accepting import FewAtOnce
from svc.config import Address
from svc.errors import ConfigError, PluginError
from svc.interfaces.kinds import IResourceKind
from svc.interfaces.tracing import NO_TRACES, Traces
from svc.model.ids import Entropy
from svc.plugin import Loaded, load
from svc.runtime import durable
from svc.runtime.services import Listener


@frozen
class Runtime:
    """Time, randomness and the reactor: passed in, never imported (D3).

    Attributes:
        crash_point: Called by name at fault points; does nothing outside fault tests.
        traces: What a role traces with; only a role's process sets it.
    """

    reactor: Any
    now: Callable[[], float]
    entropy: Entropy
    environ: Mapping[str, str]
    crash_point: Callable[[str], None] = lambda name: None
    traces: Traces = NO_TRACES

    def jitter(self, seconds: float) -> float:
        """A wait between half and all of *seconds*."""
        share = int.from_bytes(self.entropy(2), "big") / 65535
        return seconds * (0.5 + share / 2)


@define
class StateDirectory:
    """One role's state directory: private, and one process's at a time."""

    path: Path
    _lock: int | None = None
    _made: list[Path] = field(factory=list, init=False)

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def claim(self) -> None:
        """Make it if it is not there, check that it is ours alone, and lock it.

        Raises:
            ConfigError: it is not private, not writable, or another process has it.
        """
        try:
            self._make(self.path, 0o777)
            status = os.stat(self.path)
        except OSError as e:
            raise ConfigError("state_dir", f"{self.path}: {e.strerror}") from None
        if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
            raise ConfigError(
                "state_dir", f"{self.path}: must be accessible to this user only (mode 0700)"
            )
        path = self.path / "lock"
        is_new = not os.path.lexists(path)
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # One that its holder removes as we open it locks nobody out.
            if not os.path.samestat(os.fstat(lock), os.stat(path)):
                raise BlockingIOError
        except OSError:
            os.close(lock)
            raise ConfigError("state_dir", f"{self.path}: another process serves from it") from None
        self._lock = lock
        if is_new:
            self._made.append(path)

    def within(self, name: str) -> StateDirectory:
        """The directory of one of several roles, made if it is not there."""
        inner = self.path / name
        self._make(inner, 0o700)
        return StateDirectory(inner)

    def _make(self, directory: Path, above: int) -> None:
        missing = [each for each in (directory, *directory.parents) if not each.exists()]
        for each in reversed(missing):
            each.mkdir(mode=0o700 if each == directory else above, exist_ok=True)
            self._made.append(each)

    def release(self) -> None:
        """Let the next process have it."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def abandon(self) -> None:
        """Release it after a refused start, without the lock and the empty directories we made."""
        for each in reversed(self._made):
            with suppress(OSError):  # A directory that is not empty stays.
                each.rmdir() if each.is_dir() else each.unlink()
        self.release()


@define(slots=False, eq=False)
class Holding(Service):
    """Releases the state directory when everything else has stopped."""

    state: StateDirectory

    def stopService(self) -> None:
        """Release."""
        Service.stopService(self)
        self.state.release()


@define(slots=False, eq=False)
class ListeningFile(Service):
    """Writes ``listening.json`` once everything is bound: names and real addresses.

    A role may still be starting, or standing by: its readiness says so.
    """

    path: Path
    listeners: Mapping[str, Listener]

    def startService(self) -> None:
        """Write the file whole."""
        Service.startService(self)
        bound = {name: _shown(listener.bound) for name, listener in self.listeners.items()}
        text = json.dumps(bound, indent=2, sort_keys=True) + "\n"
        durable.replace(self.path, text.encode("utf-8"))

    def stopService(self) -> None:
        """Nothing listens any more."""
        Service.stopService(self)
        self.path.unlink(missing_ok=True)


def _shown(address: IAddress | None) -> str:
    host, port = getattr(address, "host", ""), getattr(address, "port", 0)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


_BACKLOG = 1024
"""Connections the system holds until we take them.  Past it a caller's first packet is dropped, and
who waits for it comes back a second later; Twisted's own 50 are too few where all come at once."""


def server_endpoint(reactor: Any, address: Address) -> IStreamServerEndpoint:
    """The endpoint that listens on *address*."""
    if ":" in address.host:
        return FewAtOnce(TCP6ServerEndpoint(reactor, address.port, _BACKLOG, address.host))
    host = "127.0.0.1" if address.host == "localhost" else address.host
    return FewAtOnce(TCP4ServerEndpoint(reactor, address.port, _BACKLOG, host))


@frozen
class Kinds:
    """The kinds the configuration names, by the operator's words, and their records."""

    by_name: Mapping[str, IResourceKind]
    loaded: tuple[Loaded, ...] = field(default=())

    @property
    def records(self) -> list[str]:
        """Name, version and digest of each, for ``role.start`` (R21)."""
        return plugin_records(self.loaded)


def load_kinds(names: Iterable[str]) -> Kinds:
    """Import the named kinds.

    Raises:
        PluginError: naming the word and what is wrong with it; so is a kind that would run
            neither with TLS from person to Connector nor behind a request gate.
    """
    loaded = load(IResourceKind, "kind", names)
    for one in loaded:
        _check_protection(one)
    return Kinds({one.record.name: one.provider for one in loaded}, loaded)  # type: ignore[misc]


def _check_protection(loaded: Loaded) -> None:
    """Refuse a kind that is neither opaque nor gated; this build has no request gates."""
    opaque = getattr(loaded.provider, "opaque", None)
    if opaque is not True:
        record = loaded.record
        raise PluginError(
            f"kind {record.name}: {record.path} says opaque = {ascii(opaque)[:40]} and has no "
            "request gate: its sessions would run without TLS between person and Connector, "
            "and their requests would not be decided; set opaque = True, or take "
            f"{record.name} out of plugins.kinds"
        )


def plugin_records(loaded: Iterable[Loaded]) -> list[str]:
    """``name version sha256`` of each drop-in."""
    return [f"{one.record.name} {one.record.version or '-'} {one.record.sha256}" for one in loaded]
