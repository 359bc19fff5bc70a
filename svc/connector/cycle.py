"""One cycle of a tunnel: dials a Proxy, registers, and stays until the tunnel ends.

A cycle is begun and ended by the machine of ``svc.tunnel.machine``; it reports
what it reached and, once, why it is over.  Between the two it moves to a fresh
connection each time a certificate shown on its own will end: the machine sees
nothing of that, and no session is lost by it.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from svc.connector.leg import Leg
from svc.connector.proxies import DuplicateProxy
from svc.connector.tunnel_parts import TunnelParts
from svc.errors import SvcError
from svc.interfaces.identity import IChainVerifier
from svc.interfaces.rpc import Peer
from svc.model.principal import Role
from svc.model.session.tunnels import EndReason
from svc.rpc.max_age import Shown
from svc.tunnel.machine import Cycle, TunnelMachine

_log = Logger(namespace="svc_connector")

_TOLD = frozenset({"closed", DuplicateProxy.reason})
"""Ends that are no fault, or that were told where they happened."""
_PROXIES = frozenset({Role.PROXY})


def proxy_by(verifier: IChainVerifier) -> Callable[[Peer], str]:
    """Gives the node id of the Proxy at the other end of a connection.

    What is given raises CertificateRefused for anybody but a Proxy of our
    cluster; it is asked again for each tunnel.
    """

    def proxy_of(peer: Peer) -> str:
        return verifier.verify(peer.chain, _PROXIES).principal.id

    return proxy_of


@define(eq=False)
class Tunnels(TunnelParts):
    """Makes the cycles of one tunnel."""

    def begin(self, tunnel: TunnelMachine) -> Cycle:
        """The next cycle.  Given to the machine as ``begin``."""
        cycle = TunnelCycle(self, tunnel)
        cycle.start()
        return cycle


@define(eq=False)
class TunnelCycle:
    """See the module.

    A cycle is over when the leg in use is, unless its successor is on its way
    and it was only superseded: its own acknowledgement then may come later,
    for the two are different connections.
    """

    _tunnels: TunnelParts
    _tunnel: TunnelMachine
    _leg: Leg = field(init=False)
    _next: Leg | None = field(default=None, init=False)
    _moving: Deferred[None] = field(factory=Deferred, init=False)
    _succession: Deferred[None] | None = field(default=None, init=False)
    _is_lost: bool = field(default=False, init=False)
    _is_over: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._leg = Leg(self._tunnels, self)

    def start(self) -> None:
        """Dial for the first time."""
        self._run_beside(self._leg)

    def stop(self) -> None:
        """End every connection of the tunnel: the service ends."""
        self._let_go()
        for leg in tuple(self._tunnels.legs):
            leg.leave()

    def dialed(self, leg: Leg) -> None:
        """See :class:`svc.connector.leg.LegListener`."""
        if leg is self._leg:
            self._tunnel.dialed()

    def registered(self, leg: Leg) -> None:
        """See :class:`svc.connector.leg.LegListener`."""
        if self._is_over:
            leg.leave()
        elif leg is self._next:
            self._leg.retire()
            self._leg, self._next, self._is_lost = leg, None, False
            self._moving.callback(None)
        elif leg is self._leg:
            self._tunnel.registered()
            self._follow()

    def _run_beside(self, leg: Leg) -> None:
        self._tunnels.legs.add(leg)
        self._tunnels.tasks.spawn("tunnel", self._run(leg))

    async def _run(self, leg: Leg) -> None:
        """A leg from its dial to its end; never raises SvcError."""
        error = SvcError("the Proxy ended the tunnel", reason="closed")
        try:
            await leg.serve()
        except SvcError as refusal:
            error = refusal
        except CancelledError:
            error = SvcError("the Connector is stopping", reason="cancelled")
        except Exception:
            # The machine must hear of every end, or it would never dial again.
            _log.failure("tunnel failed", reason="internal")
            error = SvcError("an internal error; see the log entry above", reason="internal")
        self._ended(leg, error)
        try:
            if leg.is_retired:
                await leg.drained()
        finally:
            await leg.close()
            self._tunnels.gone(leg)

    def _ended(self, leg: Leg, error: SvcError) -> None:
        if self._is_over or leg.is_retired:
            return
        if leg is self._next:
            self._next = None
            if self._is_lost:
                self._finish(error)
            self._moving.errback(error)
        elif self._next is not None and error.reason == EndReason.SUPERSEDED.value:
            leg.retire()
            self._is_lost = True
        else:
            self._finish(error)

    def _finish(self, error: SvcError) -> None:
        self._tunnels.proxies.leave(self._tunnels)
        if error.reason not in _TOLD:
            _log.warn("tunnel ended", reason=error.reason, text=error.text)
        self._let_go()
        self._tunnel.ended(error.reason, error.retry_after or 0.0)

    def _let_go(self) -> None:
        """Move no more."""
        self._is_over = True
        following, self._succession = self._succession, None
        if following is not None:
            following.cancel()
        leg, self._next = self._next, None
        if leg is not None:
            leg.leave()

    # -- moving to a fresher connection

    def _follow(self) -> None:
        if self._succession is None:
            moving = self._tunnels.fresh.follow(self._shown, self._move)
            self._succession = Deferred.fromCoroutine(moving)
            self._succession.addErrback(_log_failure)

    def _shown(self) -> Shown | None:
        return None if self._is_over else self._leg.shown

    async def _move(self) -> None:
        """Register over another connection; the old one is retired once that is acknowledged."""
        old = self._leg
        self._next = Leg(self._tunnels, self, old.shown)
        moving: Deferred[None] = Deferred()
        self._moving = moving
        self._run_beside(self._next)
        try:
            await moving
        except SvcError:
            if not old.is_retired and self._tunnels.fresh.is_over(old.shown):
                old.leave()
            raise
        _log.info("the tunnel moved to a new connection", good_until=self._leg.shown.end)


def _log_failure(failure: Failure) -> None:
    if not failure.check(CancelledError):
        _log.failure("a tunnel is no longer renewed", failure)
