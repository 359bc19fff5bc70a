"""One call to the running Authority, whichever way it takes.

A one-shot command opens no listener, starts no exporter and takes no lease; it
runs the reactor only while it speaks.  Twisted is imported when a command does.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from svc.cli import Globals
from svc.errors import SvcError
from svc.telemetry.escape import escaped

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from svc.interfaces.rpc import IRpcChannel
    from svc.runtime.context import Runtime

_T = TypeVar("_T")
_Response = TypeVar("_Response", bound="Message")

DEADLINE = 10.0
"""Seconds that a command waits for the Authority's answer."""

SEVERAL = "svc.cli.several"
"""Where a click context's ``meta`` says that its command asks more than once: a list."""


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


@contextmanager
def several_calls(context: click.Context) -> Iterator[None]:
    """For a command that asks the Authority more than once: the reactor runs for each call.

    It is stopped at the end, so that what runs at its shutdown does so once.
    """
    paused: list[object] = []
    context.meta[SEVERAL] = paused
    try:
        yield
    finally:
        del context.meta[SEVERAL]
        if paused:
            _stop_at_last()


def _stop_at_last() -> None:
    """End a reactor that was only paused."""
    from twisted.internet.error import ReactorNotRestartable

    from svc.cli.reactor import process_reactor

    reactor = process_reactor()
    reactor.callWhenRunning(reactor.stop)
    # A signal has stopped it for good.
    with suppress(ReactorNotRestartable):
        reactor.run()


def _paused() -> list[object] | None:
    """Where calls of this command's that paused the reactor are noted; None: it asks once."""
    context = click.get_current_context(silent=True)
    found: list[object] | None = None if context is None else context.meta.get(SEVERAL)
    return found


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
    paused = _paused()

    def ended(result: _T | Failure) -> None:
        outcome.append(result)
        if reactor.running and paused is None:
            reactor.stop()
        elif reactor.running and paused is not None:
            paused.append(main)
            reactor.crash()  # which lets it run again

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
        raise told(refusal) from None


def told(refusal: SvcError) -> SvcError:
    """The Authority's refusal as a person reads it, with the word that programs compare."""
    text = "\n".join(escaped(line) for line in refusal.text.split("\n"))
    return SvcError(
        f"{text} ({escaped(refusal.reason)})",
        reason=refusal.reason,
        fault=refusal.fault,
        details=refusal.details,
    )


def runtime(globals_: Globals, reactor: Any) -> Runtime:
    """What the person's side runs in."""
    from svc.runtime.context import Runtime

    if reactor is not None:
        # A stepped host clock moves no timer (D3): before anything is scheduled.
        reactor.seconds = time.monotonic
    return Runtime(reactor=reactor, now=time.time, entropy=os.urandom, environ=globals_.environ)
