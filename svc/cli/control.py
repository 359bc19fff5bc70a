"""How a command reaches the running Authority: over its control socket, on its host.

From another machine it goes through a Proxy instead (:mod:`svc.cli.lane`).
"""

from __future__ import annotations

import errno
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from attrs import frozen

from svc.cli import Globals
from svc.cli.calls import DEADLINE, Admin, told
from svc.cli.calls import run as run
from svc.cli.lane import lane
from svc.errors import Fault, SvcError, Unavailable

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from svc.config import RoleSettings
    from svc.rpc.client.channel import RpcChannel

_T = TypeVar("_T")
_Response = TypeVar("_Response", bound="Message")

SOCKET = "control.sock"
ADMIN = "svc.cli.admin"
"""Where a click context's ``meta`` may hold another :class:`Admin` than the control socket."""

_NOT_RUNNING = "authority_not_running"
_START = "svc --config FILE authority"
_MARKS = ("keys", "identity", "anchor", SOCKET)


@frozen
class ControlSocket:
    """The :class:`Admin` behind the socket in *directory*.

    Attributes:
        start: What to type to start the Authority.
    """

    directory: Path
    start: str = _START

    def __call__(
        self,
        method: str,
        request: Message,
        response_type: type[_Response],
        deadline: float = DEADLINE,
    ) -> _Response:
        """See :class:`Admin`."""
        try:
            return run(
                lambda reactor: ask(
                    reactor, self.directory, method, request, response_type, deadline
                )
            )
        except SvcError as refusal:
            if refusal.reason != _NOT_RUNNING:
                raise
            raise _nobody(self.directory / SOCKET, self.start) from None


def admin(context: click.Context) -> Admin:
    """How this command's context asks the Authority."""
    given: Admin | None = context.meta.get(ADMIN) or lane(context)
    if given is not None:
        return given
    settings = authority_settings(context)
    state = authority_state(settings)
    role = "authority" if state == Path(settings.state_dir) else "all"
    return ControlSocket(state, f"svc --config {shlex.quote(config_path(context))} {role}")


def config_path(context: click.Context) -> str:
    """The configuration's path: ``--config``, else ``SVC_CONFIG``.

    Raises:
        click.UsageError: neither is given.
    """
    given = context.find_object(Globals)
    assert given is not None  # the outermost command makes it
    path = given.config or given.environ.get("SVC_CONFIG")
    if not path:
        raise click.UsageError(
            f"{_words(context)} needs a configuration: svc --config FILE {_words(context)} …; "
            "from another machine, sign in first (svc login): the command then goes through a "
            "Proxy"
        )
    return path


def authority_settings(context: click.Context) -> RoleSettings:
    """The settings of the Authority that the configuration describes, alone or in ``svc all``.

    For commands that need its files; others also run elsewhere (:func:`caller_settings`).

    Raises:
        click.UsageError: no configuration is named, or a person's.
        ConfigErrors: it is refused.
    """
    from svc.config import ConfigErrors, load_settings

    if lane(context) is not None:
        raise click.UsageError(
            f"{_words(context)} runs only on the Authority's host, because it needs the "
            f"files there: svc --config FILE {_words(context)} …"
        )

    given = context.find_object(Globals)
    assert given is not None
    path = config_path(context)
    try:
        return load_settings(path, "authority", given.environ)
    except ConfigErrors:
        _check_role(path, given, _words(context))
        raise


def _check_role(path: str, given: Globals, words: str) -> None:
    """Refuse a file that is another role's, before what it lacks for an Authority is told.

    Raises:
        ConfigError: it is a Proxy's or a Connector's.
    """
    from svc.config.configured import configured_role
    from svc.errors import ConfigError

    role = configured_role(path, given.environ)
    if role in ("proxy", "connector"):
        raise ConfigError(
            path,
            f"is the configuration of a {role}; {words} needs the Authority's, on its host, or a "
            "person's who administers: --dir or --proxy",
        )


def caller_settings(context: click.Context) -> RoleSettings:
    """What this command is configured by: the Authority's settings, or a person's elsewhere.

    Raises:
        click.UsageError: no configuration is named.
        ConfigErrors: it is refused.
    """
    way = lane(context)
    return authority_settings(context) if way is None else way.settings


def _words(context: click.Context) -> str:
    return context.command_path.removeprefix("svc ")


def authority_state(settings: RoleSettings) -> Path:
    """The Authority's own state directory.

    ``svc all`` gives each of its roles a directory inside ``state_dir``; which
    of the two it is, the files that an Authority leaves behind tell.
    """
    alone = Path(settings.state_dir)
    within = alone / "authority"
    if not _is_authority(alone) and _is_authority(within):
        return within
    return alone


def _is_authority(directory: Path) -> bool:
    return any(os.path.lexists(directory / name) for name in _MARKS)


async def ask(
    reactor: Any,
    directory: Path,
    method: str,
    request: Message,
    response_type: type[_Response],
    deadline: float = DEADLINE,
) -> _Response:
    """One call to the Authority whose control socket lies in *directory*.

    Raises:
        SvcError: the Authority's refusal, its text followed by the reason word;
            or that nobody answers there, or not in time.
    """
    place = SocketPlace(directory)
    path = f"/gate.v1.Admin/{method}"
    return await ask_at(reactor, place, path, request, response_type, deadline)


@frozen
class SocketPlace:
    """Where a process is asked.

    Attributes:
        directory: Its state directory.
        name: Of the socket.
        whom: The process, as refusals name it.
        absent: The reason word where nobody answers.
    """

    directory: Path
    name: str = SOCKET
    whom: str = "the Authority"
    absent: str = _NOT_RUNNING

    @property
    def path(self) -> Path:
        """Of the socket."""
        return self.directory / self.name

    def nobody(self) -> SvcError:
        """Nobody answers there."""
        if self.name == SOCKET:
            return _nobody(self.path)
        text = f"{self.path}: no answer; {self.whom} does not run with this state_dir"
        return Unavailable(text, reason=self.absent)


async def ask_at(
    reactor: Any,
    place: SocketPlace,
    method: str,
    request: Message,
    response_type: type[_Response],
    deadline: float = DEADLINE,
) -> _Response:
    """One call, by the method's whole path, to the process at *place*.

    Raises:
        SvcError: as :func:`ask`.
    """
    from svc.runtime.services import bounded

    async def call() -> _Response:
        channel = await _connected(reactor, place)
        try:
            return await channel.unary(method, request, response_type, timeout=deadline)
        except SvcError as refusal:
            raise told(refusal) from None
        finally:
            await channel.close()

    return await bounded(reactor, deadline, call(), place.whom)


async def _connected(reactor: Any, place: SocketPlace) -> RpcChannel:
    """Connect through the directory's descriptor, because the path may be too long for a socket."""
    from twisted.internet.endpoints import UNIXClientEndpoint

    from svc.rpc.client.channel import dial

    with _descriptor(place) as handle:
        endpoint = UNIXClientEndpoint(reactor, f"/proc/self/fd/{handle}/{place.name}")
        try:
            return await dial(endpoint, reactor, authority="authority", plaintext=True)
        except Unavailable as failed:
            number = getattr(failed.__cause__, "osError", None)
            if number in (errno.EACCES, errno.EPERM):
                raise _not_ours(place.path, place.whom) from None
            raise place.nobody() from None
        except SvcError:
            # Whoever listens ends the connection before HTTP/2 begins, or never begins.
            raise place.nobody() from None


@contextmanager
def _descriptor(place: SocketPlace) -> Iterator[int]:
    try:
        handle = os.open(place.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:
        raise _not_ours(place.directory, place.whom) from None
    except OSError:
        raise place.nobody() from None
    try:
        yield handle
    finally:
        os.close(handle)


def _nobody(path: Path, start: str = _START) -> SvcError:
    text = f"{path}: no answer; if the Authority is not running, start it with: {start}"
    return Unavailable(text, reason=_NOT_RUNNING)


def _not_ours(path: Path, whom: str) -> SvcError:
    user = f"{whom}'s user" if whom.startswith("the ") else "its user"
    return SvcError(
        f"{path}: is owned by another user; run this as {user} or as root",
        reason="not_the_owner",
        fault=Fault.DENIED,
    )
