"""What the unit of a role has to say, by the role's own configuration; refuses what it cannot run.

Everything is read, and nothing written.
"""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Iterator, Mapping
from operator import attrgetter
from pathlib import Path
from posixpath import normpath
from urllib.parse import parse_qsl

from attrs import fields, frozen, has

from svc.compose.descriptors import needed
from svc.compose.process import of_lanes
from svc.config import RoleSettings, StoreUrl, load_settings
from svc.config.forms import LISTEN
from svc.config.keys import KEYS
from svc.config.rules import SHARED, is_own_directory
from svc.errors import ConfigError
from svc.setup.units.machine import ServiceRefused
from svc.setup.units.program import Program, UnfitPlaces, lies_in
from svc.setup.units.unit import ServiceUnit

LEAST_FILES = 65_536
END_SECS = 30
"""For an orderly stop beside what is drained."""

_LOW = 1024
_VARIABLE = "/var/lib"
_FILE = "file://"
_ACCOUNT = re.compile(r"^User=([A-Za-z0-9_.-]+)$", re.MULTILINE)
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_NO_VALUES: Mapping[str, str] = {}


@frozen
class WantedUnit:
    """What the command line asks for.

    Attributes:
        config: Absolute.
        account: Who is to run it; empty for the usual one.
        is_own: Whether the person's own service manager runs it.
    """

    role: str
    config: str
    account: str = ""
    is_own: bool = False

    def account_in(self, units: Path) -> str:
        """Who runs it: as given, as the unit that is installed says, or one of the role's own.

        Of a client it is the owner of the configuration; empty where its own manager runs it.

        Raises:
            ServiceRefused: the configuration is root's, or its owner has no name fit for a unit.
        """
        if self.is_own:
            return ""
        if self.role == "client":
            return self.account or self._owner()
        return self.account or installed_account(units / f"svc-{self.role}.service") or self._usual

    @property
    def _usual(self) -> str:
        return f"svc-{self.role}"

    def _owner(self) -> str:
        try:
            name = pwd.getpwuid(os.stat(self.config).st_uid).pw_name
        except (OSError, KeyError):
            name = "root"
        if name == "root" or not _USER.fullmatch(name):
            raise ServiceRefused(
                f"{self.config}: no person owns it; name the one who is to run the client with "
                "--account",
                reason="no_account",
            )
        return name

    def name(self, account: str) -> str:
        """The unit's name."""
        if self.role == "client":
            return "svc-client.service" if self.is_own else f"svc-client@{account}.service"
        return f"svc-{self.role}.service"


def installed_account(unit: Path) -> str:
    """The account of a unit that is installed; empty without one."""
    try:
        found = _ACCOUNT.search(unit.read_text("utf-8"))
    except (OSError, UnicodeDecodeError):
        return ""
    return found[1] if found and found[1] != "root" else ""


def plan_unit(
    wanted: WantedUnit, account: str, program: Program, found: UnfitPlaces
) -> ServiceUnit:
    """The unit, by the configuration as the role reads it.  Blocks.

    The environment is a new one: a unit's process gets none of the variables of a shell.

    Raises:
        SvcError: the configuration is refused, or the role cannot run under a unit with it.
    """
    for word in (wanted.config, *program.words):
        if any(ord(mark) < 32 or ord(mark) == 127 for mark in word):
            raise ConfigError(ascii(word), "control characters are not allowed in a unit")
    settings = load_settings(wanted.config, wanted.role, _NO_VALUES)
    is_client = wanted.role == "client"
    writable: tuple[str, ...]
    if is_client:
        directory, writable = "", (_client_directory(settings, found.temporary),)
    else:
        _check_seen(settings, found.hidden)
        directory = state_directory(wanted.role, settings.state_dir)
        writable = _store_directory(settings)
    low = any(0 < port < _LOW for port in _ports(settings))
    drained = 0 if is_client else len(_ports(settings)) + 1
    return ServiceUnit(
        role=wanted.role,
        name=wanted.name(account),
        account=account,
        program=program.words,
        config=wanted.config,
        state_directory=directory,
        cache_directory=_cache_directory(wanted, account) if program.unpacks else "",
        writable=writable,
        open_files=max(LEAST_FILES, needed(settings.limits.max_connections, of_lanes(settings))),
        # Listeners are closed one after the other; each may drain, and so do the sessions.
        stop_secs=END_SECS + int(drained * settings.limits.drain_secs + 0.999),
        binds_low=low or (is_client and settings.client.native_port_offset == 0),
        witnesses=_witness_directories(settings),
    )


def state_directory(role: str, given: str) -> str:
    """The state directory as a unit names it: below ``/var/lib``.

    Raises:
        ConfigError: it is another one than the role's own, or one below that (G-OPEN-70).
    """
    if is_own_directory(role, given):
        return os.path.relpath(normpath(given), _VARIABLE)
    raise ConfigError(
        "state_dir",
        f"a unit provides {SHARED}/{role}, or a directory below it, and no other; stop the role, "
        "move its directory there, change state_dir, and install the unit again",
    )


def _cache_directory(wanted: WantedUnit, account: str) -> str:
    """Where the program unpacks itself; a person's own service manager hides no home from it."""
    return "" if wanted.is_own else wanted.name(account).removesuffix(".service")


def _client_directory(settings: RoleSettings, temporary: tuple[str, ...]) -> str:
    path = settings.state_dir or os.path.dirname(settings.path)
    if place := lies_in(path, temporary):
        raise ConfigError("state_dir", f"lies in the temporary directory {place}; move it")
    return normpath(path)


def _store_directory(settings: RoleSettings) -> tuple[str, ...]:
    """Where a store in a file lies, unless that is in the state directory."""
    url = settings.store_url
    if url is None or url.scheme != "sqlite":
        return ()
    directory = normpath(os.path.dirname(url.rest.partition("?")[0]))
    return () if lies_in(directory, (settings.state_dir,)) else (directory,)


def _witness_directories(settings: RoleSettings) -> tuple[str, ...]:
    """Where witnesses in files lie, unless that is in the state directory."""
    paths = [url.removeprefix(_FILE) for url in settings.audit.witness if url.startswith(_FILE)]
    directories = dict.fromkeys(os.path.dirname(path) for path in paths)
    return tuple(each for each in directories if not lies_in(each, (settings.state_dir,)))


def _ports(settings: RoleSettings) -> list[int]:
    """Of every address that the role listens at."""
    keys = [key for key in KEYS if key.form is LISTEN and settings.role in key.roles]
    found = [attrgetter(key.path)(settings) for key in keys if not key.later]
    return [address.port for address in found if address is not None]


def _check_seen(settings: RoleSettings, hidden: tuple[str, ...]) -> None:
    """Refuse files that a unit hides from its process.

    Raises:
        ConfigError: naming the key.
    """
    joined = os.path.exists(os.path.join(settings.state_dir, "identity"))
    for key, path in [("--config", settings.path), *_paths(settings, "")]:
        if key in ("path", "state_dir") or (joined and key == "join.token_file"):
            continue  # Judged elsewhere; and a node that has joined reads no token.
        if place := lies_in(path, hidden):
            raise ConfigError(
                key,
                f"the file lies in {place}, which the unit hides from the role; move it, such as "
                "to /etc/svc",
            )


def _paths(value: object, key: str) -> Iterator[tuple[str, str]]:
    """Every absolute path among the settings, by its key."""
    if isinstance(value, StoreUrl):
        rest, _, parameters = value.rest.partition("?")
        if value.scheme == "sqlite":
            yield key, rest
        for name, text in parse_qsl(parameters):
            yield from _paths(text, f"{key}: {name}")
    elif isinstance(value, str):
        path = value.removeprefix(_FILE)
        if path.startswith("/"):
            yield key, path
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _paths(inner, f"{key}.{name}")
    elif isinstance(value, tuple | list):
        for at, inner in enumerate(value):
            yield from _paths(inner, f"{key}[{at}]")
    elif has(table := type(value)):
        for each in fields(table):
            yield from _paths(getattr(value, each.name), f"{key}.{each.name}".removeprefix("."))
