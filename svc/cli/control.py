"""How a command reaches the running Authority: one call over its control socket.

A one-shot command opens no listener, starts no exporter and takes no lease; it
runs the reactor only while it speaks.  Twisted is imported when a command does.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click
from attrs import frozen

from svc.cli import Globals
from svc.errors import Fault, SvcError, Unavailable
from svc.telemetry.escape import escaped

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from svc.config import RoleSettings
    from svc.interfaces.rpc import IRpcChannel
    from svc.rpc.client.channel import RpcChannel

_T = TypeVar("_T")
_Response = TypeVar("_Response", bound="Message")

SOCKET = "control.sock"
DEADLINE = 10.0
"""Seconds that a command waits for the Authority's answer."""

ADMIN = "svc.cli.admin"
"""Where a click context's ``meta`` may hold another :class:`Admin` than the control socket."""

_MARKS = ("keys", "identity", "anchor", SOCKET)


class Admin(Protocol):
    """Asks ``gate.v1.Admin``."""

    def __call__(
        self,
        method: str,
        request: Message,
        response_type: type[_Response],
        deadline: float = DEADLINE,
    ) -> _Response:
        """The answer; raises SvcError for a refusal or when nobody answers in time."""


@frozen
class ControlSocket:
    """The :class:`Admin` behind the socket in *directory*."""

    directory: Path

    def __call__(
        self,
        method: str,
        request: Message,
        response_type: type[_Response],
        deadline: float = DEADLINE,
    ) -> _Response:
        """See :class:`Admin`."""
        return run(
            lambda reactor: ask(reactor, self.directory, method, request, response_type, deadline)
        )


def admin(context: click.Context) -> Admin:
    """How this command's context asks the Authority."""
    given: Admin | None = context.meta.get(ADMIN)
    if given is not None:
        return given
    return ControlSocket(authority_state(authority_settings(context)))


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
            f"{context.command_path.removeprefix('svc ')} needs a configuration: "
            f"svc --config FILE {context.command_path.removeprefix('svc ')} …"
        )
    return path


def authority_settings(context: click.Context) -> RoleSettings:
    """The settings of the Authority that the configuration describes, alone or in ``svc all``.

    Raises:
        click.UsageError: no configuration is named.
        ConfigErrors: it is refused.
    """
    from svc.config import load_settings

    given = context.find_object(Globals)
    assert given is not None
    return load_settings(config_path(context), "authority", given.environ)


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


def run(main: Callable[[Any], Coroutine[Any, Any, _T]]) -> _T:
    """Run the reactor for as long as *main* does; what it returns or raises.

    Raises:
        click.Abort: a signal ended the reactor first.
    """
    from twisted.internet.defer import Deferred
    from twisted.python.failure import Failure

    from svc.cli.reactor import process_reactor

    reactor = process_reactor()
    outcome: list[_T | Failure] = []

    def ended(result: _T | Failure) -> None:
        outcome.append(result)
        if reactor.running:
            reactor.stop()

    def begin() -> None:
        Deferred.fromCoroutine(main(reactor)).addBoth(ended)

    reactor.callWhenRunning(begin)
    reactor.run()
    if not outcome:
        raise click.Abort
    (result,) = outcome
    if isinstance(result, Failure):
        result.raiseException()
        raise AssertionError("a failure that does not raise")
    return result


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
    from svc.runtime.services import bounded

    call = _asked(reactor, directory, method, request, response_type, deadline)
    return await bounded(reactor, deadline, call, "the Authority")


async def _asked(
    reactor: Any,
    directory: Path,
    method: str,
    request: Message,
    response_type: type[_Response],
    deadline: float,
) -> _Response:
    channel = await _connected(reactor, directory)
    try:
        return await asked(channel, method, request, response_type, deadline)
    finally:
        await channel.close()


async def asked(
    channel: IRpcChannel,
    method: str,
    request: Message,
    response_type: type[_Response],
    deadline: float = DEADLINE,
) -> _Response:
    """One call over a channel that is there; refusals as :func:`ask` tells them."""
    path = f"/gate.v1.Admin/{method}"
    try:
        return await channel.unary(path, request, response_type, timeout=deadline)
    except SvcError as refusal:
        raise _told(refusal) from None


async def _connected(reactor: Any, directory: Path) -> RpcChannel:
    """Connect through the directory's descriptor, because the path may be too long for a socket."""
    from twisted.internet.endpoints import UNIXClientEndpoint

    from svc.rpc.client.channel import dial

    with _descriptor(directory) as handle:
        endpoint = UNIXClientEndpoint(reactor, f"/proc/self/fd/{handle}/{SOCKET}")
        try:
            return await dial(endpoint, reactor, authority="authority", plaintext=True)
        except Unavailable as failed:
            number = getattr(failed.__cause__, "osError", None)
            if number in (errno.EACCES, errno.EPERM):
                raise _not_ours(directory / SOCKET) from None
            raise _nobody(directory / SOCKET) from None
        except SvcError:
            # Whoever listens ends the connection before HTTP/2 begins, or never begins.
            raise _nobody(directory / SOCKET) from None


@contextmanager
def _descriptor(directory: Path) -> Iterator[int]:
    try:
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:
        raise _not_ours(directory) from None
    except OSError:
        raise _nobody(directory / SOCKET) from None
    try:
        yield handle
    finally:
        os.close(handle)


def _nobody(path: Path) -> SvcError:
    return Unavailable(
        f"{path}: no answer; if the Authority is not running, start it with: svc --config "
        "FILE authority",
        reason="authority_not_running",
    )


def _not_ours(path: Path) -> SvcError:
    return SvcError(
        f"{path}: is owned by another user; run this as the Authority's user or as root",
        reason="not_the_owner",
        fault=Fault.DENIED,
    )


def _told(refusal: SvcError) -> SvcError:
    """The Authority's refusal as a person reads it, with the word that programs compare."""
    text = "\n".join(escaped(line) for line in refusal.text.split("\n"))
    return SvcError(
        f"{text} ({escaped(refusal.reason)})",
        reason=refusal.reason,
        fault=refusal.fault,
        details=refusal.details,
    )
