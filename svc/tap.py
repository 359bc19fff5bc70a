"""The twistd face of each role: options and the same composition that ``svc`` uses.

One of the two places that import the reactor.  Nothing heavy is imported
before a role was chosen.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from attrs import field, frozen
from twisted.application.service import IService, MultiService, Service
from twisted.internet.defer import CancelledError, maybeDeferred
from twisted.internet.error import ReactorNotRunning
from twisted.logger import ILogObserver, Logger
from twisted.python import usage
from twisted.python.failure import Failure

from svc.errors import ConfigError, SvcError
from svc.runtime.python_environment import obeyed, why_not


class RoleOptions(usage.Options):
    """Options of every role."""

    optParameters = [["config", "c", None, "Path of the configuration file."]]

    def postOptions(self) -> None:
        """A role does not start without a configuration."""
        if self["config"] is None:
            raise usage.UsageError("--config is required")


class Root(MultiService):
    """Holds the role, and sets our log observer when it gets its application."""

    def __init__(self, lines: Any, ended: Callable[[SvcError | None], object]) -> None:
        MultiService.__init__(self)
        self._lines = lines
        self.ended = ended

    def setServiceParent(self, parent: Any) -> None:
        """Twistd begins the logging with what the application says."""
        parent.setComponent(ILogObserver, self._lines)
        MultiService.setServiceParent(self, parent)

    def privilegedStartService(self) -> None:
        """Bind; an address in use ends the start as every other refusal does."""
        try:
            MultiService.privilegedStartService(self)
        except SvcError as refusal:
            self._lines.refusal(refusal.reason, refusal.text, time.time())
            raise SystemExit(refusal.exit_code) from None

    def startService(self) -> None:
        """Start; a role that cannot ends the process, which twistd would leave running."""
        Service.startService(self)
        for child in self:
            maybeDeferred(child.startService).addErrback(self._failed)

    def _failed(self, failure: Failure) -> None:
        if failure.check(CancelledError):
            return  # by the stop, which has its own status
        refusal = failure.value
        if isinstance(refusal, SvcError):
            self.ended(refusal)
            return
        Logger(namespace="svc").failure("the role failed to start", failure)
        self.ended(None)


@frozen
class RolePlugin:
    """What ``ServiceMaker`` looks up by name."""

    name: str
    Options: type[usage.Options] = field(default=RoleOptions)

    def makeService(self, options: usage.Options) -> IService:
        """The role's services; refusals end the start with their exit status."""
        from twisted.internet import reactor

        from svc.telemetry.logs import bridge_stdlib, make_lines

        timed: Any = reactor
        timed.seconds = time.monotonic
        lines = make_lines(os.environ)
        bridge_stdlib()
        root = Root(lines, ExitStatus(reactor, lines))
        try:
            check_environment(os.environ)
            self._compose(reactor, options["config"], lines, root)
        except SvcError as refusal:
            lines.refusal(refusal.reason, refusal.text, time.time())
            raise SystemExit(refusal.exit_code) from None
        return root

    def _compose(self, reactor: Any, path: str, lines: Any, root: Any) -> None:
        from svc.compose.signals import ignore_hangups, reload_on_hangups, stop_on_signals
        from svc.config import load_settings
        from svc.runtime.context import Runtime
        from svc.runtime.heap import settle_heap
        from svc.telemetry.filter import parse_filter

        ignore_hangups(reactor)
        log_filter = parse_filter(os.environ.get("RUST_LOG"))
        settings = load_settings(path, self.name, os.environ)
        lines.settle(log_filter, settings.profile)
        runtime = Runtime(reactor=reactor, now=time.time, entropy=os.urandom, environ=os.environ)
        process: Any
        if self.name == "client":
            from svc.compose.client import make_client

            process = make_client(runtime, settings)
            ignore_hangups(reactor, "a client reads its configuration only at the start")
        else:
            from svc.compose.process import make_process

            process = make_process(runtime, settings, stopped_by=root.ended)
            reload_on_hangups(reactor, process.reloading.hang_up)
        root.addService(process)
        reactor.callWhenRunning(stop_on_signals, reactor)
        reactor.callWhenRunning(settle_heap, reactor)


def check_environment(environ: Mapping[str, str]) -> None:
    """Refuse variables that brought Python modules: twistd cannot be started again from here.

    Raises:
        ConfigError: naming them.
    """
    found = obeyed(environ)
    if found and not sys.flags.ignore_environment:
        raise ConfigError("twistd", why_not(found))


def _stop(reactor: Any) -> None:
    with suppress(ReactorNotRunning):  # it is stopping already
        reactor.stop()


class ExitStatus:
    """Ends twistd with a refusal's exit status: twistd itself always exits with 0."""

    def __init__(self, reactor: Any, lines: Any) -> None:
        self._reactor = reactor
        self._lines = lines

    def __call__(self, refusal: SvcError | None) -> None:
        """End; None where the reason is in the log already."""
        status = 1
        if refusal is not None:
            self._lines.refusal(refusal.reason, refusal.text, time.time())
            status = refusal.exit_code or 1
        atexit.register(os._exit, status)
        # Not at once: a start may fail before the reactor runs.
        self._reactor.callWhenRunning(_stop, self._reactor)


authority = RolePlugin("authority")
proxy = RolePlugin("proxy")
connector = RolePlugin("connector")
all = RolePlugin("all")
client = RolePlugin("client")
