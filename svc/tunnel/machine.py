"""The state machine of a Connector's tunnel: dial, register, serve, and dial again.

The states are spelled here and nowhere else::

    idle -> dialing -> registering -> registered
               ^            |             |
               +- waiting <-+-------------+        stopped, from anywhere

One turn through dialing to waiting is a *cycle*; whoever runs it (the
Connector) is made by ``begin`` and reports by calling the inputs.  The machine
knows no RPC, no certificate and no metric: it owns when to dial and what is
counted.  Outputs never raise, block or await; an input is never silently
dropped, but for those that race with ``stop``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from attrs import define, field
from automat import TypeMachineBuilder
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from svc.runtime.backoff import Backoff

QUICK_SECONDS = 10.0
"""A tunnel that ends unacknowledged within this time counts as refused."""

STEADY_SECONDS = 60.0
"""After being registered this long the backoff begins again."""

MAX_RETRY_AFTER_SECS = 300.0
"""A Proxy that says when to come again is waited for no longer than this."""


class Cycle(Protocol):
    """One attempt to reach and serve a Proxy, from dial to end."""

    def stop(self) -> None:
        """End in order; never raises.  No input needs to follow, but one may."""


class TunnelMachine(Protocol):
    """The inputs."""

    def start(self) -> None:
        """Dial for the first time.  Called once, by the service."""

    def dialed(self) -> None:
        """The connection is open and the registration was sent. Called by the cycle."""

    def registered(self) -> None:
        """The Proxy acknowledged the registration (again, if it asked again)."""

    def ended(self, reason: str, retry_after: float = 0.0) -> None:
        """The cycle is over, whatever it had reached.  Called by the cycle, once.

        Args:
            retry_after: Seconds the Proxy asked us to stay away; the wait of our own follows them,
                so that nodes that were told the same do not come back together.
        """

    def redial(self) -> None:
        """The wait is over.  Called by the clock."""

    def hurry(self) -> None:
        """What may have kept us from registering is otherwise now: wait no longer, if we do."""

    def stop(self) -> None:
        """Forget it: no redial.  Called by the service, any number of times."""


@define
class TunnelCore:
    """What the outputs may touch.

    Attributes:
        begin: Makes the next cycle; must return before it calls an input,
            and must not raise: failures are told as ``ended``.
        waits: Between a cycle's end and the next dial.
        on_event: Hears one word an event: ``registered``, ``ended`` (a registered
            tunnel went), ``refused`` (closed quickly, before it was
            acknowledged), ``reconnect`` (each cycle over, before its wait);
            with a reason for people.
    """

    clock: IReactorTime
    begin: Callable[[TunnelMachine], Cycle]
    waits: Backoff
    on_event: Callable[[str, str], None]
    opened_at: float = field(default=0.0, init=False)
    acknowledged_at: float | None = field(default=None, init=False)
    cycle: Cycle | None = field(default=None, init=False)

    def over(self, word: str, reason: str) -> None:
        """Tell that the cycle is over and forget it."""
        self.cycle = None
        if word:
            self.on_event(word, reason)
        self.on_event("reconnect", reason)

    def next_wait(self, retry_after: float) -> float:
        """Count one more failure; a tunnel that held for a while wipes those before."""
        began, self.acknowledged_at = self.acknowledged_at, None
        if began is not None and self.clock.seconds() - began >= STEADY_SECONDS:
            self.waits.reset()
        return min(retry_after, MAX_RETRY_AFTER_SECS) + self.waits.next()

    def end_cycle(self) -> None:
        """Stop whatever runs."""
        cycle, self.cycle = self.cycle, None
        if cycle is not None:
            cycle.stop()


def _machine() -> Callable[[TunnelCore], TunnelMachine]:
    build = TypeMachineBuilder(TunnelMachine, TunnelCore)
    idle = build.state("idle")
    dialing = build.state("dialing")
    registering = build.state("registering")
    registered = build.state("registered")
    waiting = build.state("waiting", _next_dial)
    stopped = build.state("stopped")

    idle.upon(TunnelMachine.start).to(dialing)(_dial)
    waiting.upon(TunnelMachine.redial).to(dialing)(_dial_again)
    waiting.upon(TunnelMachine.hurry).to(dialing)(_dial_now)
    for busy in (idle, dialing, registering, registered, stopped):
        busy.upon(TunnelMachine.hurry).loop().returns(None)
    dialing.upon(TunnelMachine.dialed).to(registering)(_opened)
    dialing.upon(TunnelMachine.ended).to(waiting)(_unreached)
    registering.upon(TunnelMachine.registered).to(registered)(_acknowledged)
    registering.upon(TunnelMachine.ended).to(waiting)(_refused)
    registered.upon(TunnelMachine.registered).loop().returns(None)
    registered.upon(TunnelMachine.ended).to(waiting)(_departed)

    for live in (idle, dialing, registering, registered):
        live.upon(TunnelMachine.stop).to(stopped)(_abandon)
    waiting.upon(TunnelMachine.stop).to(stopped)(_forget)

    # What a cycle still reports after it was told to stop means nothing any more.
    stopped.upon(TunnelMachine.stop).loop().returns(None)
    stopped.upon(TunnelMachine.dialed).loop().returns(None)
    stopped.upon(TunnelMachine.registered).loop().returns(None)
    stopped.upon(TunnelMachine.ended).loop().returns(None)
    return build.build()


def _next_dial(
    tunnel: TunnelMachine, core: TunnelCore, reason: str, retry_after: float = 0.0
) -> IDelayedCall:
    return core.clock.callLater(core.next_wait(retry_after), tunnel.redial)


def _dial(tunnel: TunnelMachine, core: TunnelCore) -> None:
    core.cycle = core.begin(tunnel)


def _dial_again(tunnel: TunnelMachine, core: TunnelCore, waited: IDelayedCall) -> None:
    core.cycle = core.begin(tunnel)


def _dial_now(tunnel: TunnelMachine, core: TunnelCore, waited: IDelayedCall) -> None:
    waited.cancel()
    core.cycle = core.begin(tunnel)


def _opened(tunnel: TunnelMachine, core: TunnelCore) -> None:
    core.opened_at = core.clock.seconds()


def _unreached(
    tunnel: TunnelMachine, core: TunnelCore, reason: str, retry_after: float = 0.0
) -> None:
    core.over("", reason)


def _acknowledged(tunnel: TunnelMachine, core: TunnelCore) -> None:
    core.acknowledged_at = core.clock.seconds()
    core.on_event("registered", "")


def _refused(
    tunnel: TunnelMachine, core: TunnelCore, reason: str, retry_after: float = 0.0
) -> None:
    quick = core.clock.seconds() - core.opened_at < QUICK_SECONDS
    core.over("refused" if quick else "", reason)


def _departed(
    tunnel: TunnelMachine, core: TunnelCore, reason: str, retry_after: float = 0.0
) -> None:
    core.over("ended", reason)


def _abandon(tunnel: TunnelMachine, core: TunnelCore) -> None:
    core.end_cycle()


def _forget(tunnel: TunnelMachine, core: TunnelCore, redialing: IDelayedCall) -> None:
    redialing.cancel()


make_tunnel = _machine()
"""``make_tunnel(core)`` gives a tunnel that stands idle until ``start``."""
