"""Running a role in the foreground: ``svc --config c <role>``."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from svc.cli import Globals
from svc.errors import ConfigError, PluginError, SvcError, UsageError

if TYPE_CHECKING:
    from svc.interfaces.rpc import RpcService
    from svc.telemetry.logs import LogLines


def run_role(globals_: Globals, role: str, services: Iterable[RpcService] = ()) -> int:
    """Serve until a signal; the exit status.

    Args:
        services: Served beside a Proxy's own on its public listener, under the same limits and
            admission; no command and no configuration gives any.

    Everything that a role must not start with is refused here before the
    reactor runs; refusals go through the log, in its format.
    """
    if globals_.config is None:
        raise UsageError(
            f"running a role requires its configuration: svc --config FILE {role}; "
            "`svc init` makes one"
        )
    from svc.cli.reactor import process_reactor
    from svc.compose.signals import ignore_hangups, reload_on_hangups
    from svc.config import load_settings
    from svc.telemetry.filter import parse_filter
    from svc.telemetry.logs import begin_logging

    reactor = process_reactor()
    lines = begin_logging(globals_.environ)
    ignore_hangups(reactor)
    running = Running(reactor, lines)
    log_filter, profile = parse_filter(None), None
    try:
        log_filter = parse_filter(globals_.environ.get("RUST_LOG"))
        settings = load_settings(globals_.config, role, globals_.environ)
        profile = settings.profile
        lines.settle(log_filter, profile)
        process = _made(
            globals_, reactor, settings, stopped_by=running.stopped_by, services=services
        )
    except SvcError as refusal:
        lines.settle(log_filter, profile)
        return refused_start(lines, refusal, globals_.environ)
    reload_on_hangups(reactor, process.reloading.hang_up)
    return running.run(process)


def _made(
    globals_: Globals,
    reactor: Any,
    settings: Any,
    *,
    stopped_by: Callable[[SvcError], object],
    services: Iterable[RpcService],
) -> Any:
    """The wired process; the rooms are imported only for a configuration that was read."""
    from svc.compose.process import make_process
    from svc.runtime.context import Runtime

    runtime = Runtime(
        reactor=reactor,
        now=time.time,
        entropy=os.urandom,
        environ=globals_.environ,
        crash_point=crash_point(globals_),
    )
    return make_process(runtime, settings, stopped_by, services)


def crash_point(globals_: Globals) -> Any:
    """Ends the process at the point ``SVC_CRASH_AT`` names; for fault tests only.

    ``name`` is the first time the point is reached, ``name:N`` the Nth.

    Raises:
        ConfigError: N is not a number from 1 on.
    """
    wanted = globals_.environ.get("SVC_CRASH_AT")
    if wanted is None:
        return lambda name: None
    point, _, number = wanted.partition(":")
    if number and (not number.isdecimal() or int(number) < 1):
        raise ConfigError("SVC_CRASH_AT", "the colon must be followed by a number, 1 or greater")
    left = int(number or 1)

    def crash(name: str) -> None:
        nonlocal left
        if name == point:
            left -= 1
            if left == 0:
                os._exit(137)

    return crash


def refused_start(lines: LogLines, refusal: SvcError, environ: Mapping[str, str]) -> int:
    """As :func:`refused`, with the status that a unit names where no restart can mend it.

    That is so of what is written in the configuration and the environment.  What else is refused
    may pass: a file that cannot be read yet, an address still in use.
    """
    from svc.cli.next_commands import completed_refusal
    from svc.config import ConfigErrors
    from svc.config.keys import REFUSED_STATUS
    from svc.telemetry.filter import VARIABLE

    refusal = completed_refusal(refusal)
    status, wanted = refused(lines, refusal), environ.get(REFUSED_STATUS, "")
    is_filter = isinstance(refusal, ConfigError) and refusal.where == VARIABLE
    is_written = is_filter or isinstance(refusal, ConfigErrors | PluginError)
    # It comes before anything of the environment is judged: a malformed one is not there.
    is_status = wanted.isascii() and wanted.isdecimal() and 0 < int(wanted[:4]) < 256
    return int(wanted) if is_written and is_status and status == 1 else status


def refused(lines: LogLines, refusal: SvcError) -> int:
    """Say on stderr, as the log is written, why nothing is served; the exit status."""
    lines.refusal(refusal.reason, refusal.text, time.time())
    return refusal.exit_code


class Running:
    """One process between its start and its exit status."""

    def __init__(self, reactor: Any, lines: LogLines) -> None:
        self._reactor = reactor
        self._lines = lines
        self._status = 0

    def run(self, process: Any) -> int:
        """Start, serve until the reactor stops, stop; the exit status."""
        from svc.compose.signals import stop_on_signals

        try:
            process.privilegedStartService()
        except SvcError as refusal:
            from svc.cli.next_commands import completed_refusal

            return refused(self._lines, completed_refusal(refusal))
        self._reactor.addSystemEventTrigger("before", "shutdown", process.stopService)
        self._reactor.callWhenRunning(self._start, process)
        self._reactor.callWhenRunning(stop_on_signals, self._reactor)
        self._reactor.run()
        return self._status

    def _start(self, process: Any) -> None:
        from svc.runtime.heap import settle_heap

        started = process.startService()
        started.addCallbacks(lambda _: settle_heap(self._reactor), self._failed)

    def _failed(self, failure: Any) -> None:
        from twisted.internet.defer import CancelledError
        from twisted.logger import Logger

        if failure.check(CancelledError):
            return  # by the stop, which has its own status
        if failure.check(SvcError):
            from svc.cli.next_commands import completed_refusal

            self.stopped_by(completed_refusal(failure.value))
            return
        Logger(namespace="svc").failure("the role failed to start", failure)
        self._status = 1
        self._stop()

    def stopped_by(self, refusal: SvcError) -> None:
        """End the process, for this reason; its status is the refusal's."""
        self._status = refused(self._lines, refusal) or 1
        self._stop()

    def _stop(self) -> None:
        if self._reactor.running:
            self._reactor.stop()


@click.command()
@click.pass_obj
def proxy(globals_: Globals) -> int:
    """Run a Proxy.

    Example:
        svc --config proxy.toml proxy
    """
    return run_role(globals_, "proxy")


@click.command()
@click.pass_obj
def connector(globals_: Globals) -> int:
    """Run a Connector.

    Example:
        svc --config connector.toml connector
    """
    return run_role(globals_, "connector")


@click.command("all")
@click.pass_obj
def all_roles(globals_: Globals) -> int:
    """Run Authority, Proxy and Connector in one process.

    Example:
        svc --config all.toml all
    """
    return run_role(globals_, "all")
