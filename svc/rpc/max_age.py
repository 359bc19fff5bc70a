"""When a connection must be replaced, because a certificate shown on it will expire.

Every call is checked against the certificates its connection began with (rule
R13): past their end an old connection starts nothing more, though both sides
may have renewed long ago.  So whoever dialed makes another one in time, moves
there, and lets the old one finish what it carries.  This module says when, and
paces the tries; what "moving" means is the caller's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Set
from math import inf

from attrs import define, field, frozen
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from svc.errors import Fault, SvcError
from svc.interfaces.identity import IChainVerifier, IIdentity
from svc.interfaces.rpc import IRpcChannel, Peer
from svc.model.certificate import CertificateFacts
from svc.model.principal import Role

_log = Logger(namespace="svc_rpc")

LAST_SHARE = 0.25
"""What is left of the server's certificate when we dial again: it renewed before that."""

SPREAD = 0.07
"""Share of its life over which the callers of one server spread themselves."""

LOOK_AGAIN = 600.0
"""The longest sleep in seconds: a host clock that was set is noticed within it."""

_LONGEST_PAUSE = 300.0
_SHORTEST_PAUSE = 30.0
"""For certificates of a day; those of seconds are tried again sooner."""

_LOOK_SECS = 1.0
"""How often a channel that was left is looked at for calls that still run."""


class NotRenewed(SvcError):
    """A new connection is as old as the one it was to replace."""

    fault = Fault.PRECONDITION
    reason = "not_renewed"


@frozen(eq=False)
class Shown:
    """The certificates that a connection started with; None if there is none.

    Attributes:
        due: Wall time from which the other end's certificate is too old.
    """

    ours: CertificateFacts | None = None
    theirs: CertificateFacts | None = None
    due: float = inf

    @property
    def end(self) -> float:
        """Wall time from which nothing may be started on the connection."""
        return min((one.not_after for one in self._both), default=inf)

    @property
    def lifetime(self) -> float:
        """Seconds that the shorter of the two lives."""
        return min((one.lifetime for one in self._both), default=inf)

    @property
    def _both(self) -> tuple[CertificateFacts, ...]:
        return tuple(one for one in (self.ours, self.theirs) if one is not None)


def _never_late() -> float:
    return 0.0


@define(eq=False)
class Freshness:
    """Checks the age of connections that one identity dials to servers of some roles.

    Without an identity nothing ever ages: a connection then shows none.

    Attributes:
        roles: Of the servers.
        now: Wall time.
        chance: A number from 0 up to 1, so that callers do not come all at once.
    """

    clock: IReactorTime
    now: Callable[[], float] = field(default=_never_late)
    identity: IIdentity | None = None
    verifier: IChainVerifier | None = None
    roles: Set[Role] = frozenset()
    chance: Callable[[], float] = field(default=_never_late)
    _waiting: list[Deferred[None]] = field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        if self.identity is not None:
            self.identity.on_renewed(self._renewed)

    @property
    def ours(self) -> CertificateFacts | None:
        """What the next handshake shows; asked before a dial begins."""
        return None if self.identity is None else self.identity.facts

    def shown(self, ours: CertificateFacts | None, peer: Peer, older: Shown | None = None) -> Shown:
        """What a connection began with.

        Args:
            ours: As it was asked before the dial.
            older: Of the connection that is to be replaced.

        Raises:
            NotRenewed: it shows nothing newer than the older one.
            CertificateRefused: the other end's is not good now.
        """
        theirs = None
        if self.verifier is not None and peer.chain:
            theirs = self.verifier.verify(peer.chain, self.roles)
        if older is not None and _same(ours, older.ours) and _same(theirs, older.theirs):
            raise NotRenewed("the other end shows the same certificate still")
        if theirs is None:
            return Shown(ours)
        share = LAST_SHARE - SPREAD * self.chance()
        return Shown(ours, theirs, theirs.not_after - theirs.lifetime * share)

    def left(self, shown: Shown) -> float:
        """Seconds until the connection is to be made again; 0 or less: now."""
        if self.identity is not None and not _same(self.identity.facts, shown.ours):
            return 0.0
        return shown.due - self.now()

    def has_ended(self, shown: Shown) -> bool:
        """Whether nothing more may be started on the connection."""
        return self.now() >= shown.end

    def is_over(self, shown: Shown) -> bool:
        """Whether our certificate on it has ended although we have a newer one."""
        ours, newest = shown.ours, self.ours
        return ours is not None and not _same(ours, newest) and self.now() >= ours.not_after

    async def follow(
        self, current: Callable[[], Shown | None], replace: Callable[[], Awaitable[object]]
    ) -> None:
        """Replace the connection in use each time it is due, until there is none.

        Args:
            current: What the connection in use shows; None once there is none
                to replace, before this is cancelled: a cancellation alone does not reach a
                coroutine that is itself the cause of the end, and one that comes while there
                is a connection was meant for something else.
            replace: Dials, moves and returns; what it raises is logged, and it
                is called again soon.
        """
        while (shown := current()) is not None:
            left = self.left(shown)
            if left > 0:
                await self._wait(min(left, LOOK_AGAIN) if left < inf else inf)
                continue
            try:
                await replace()
                continue
            except SvcError as e:
                _log.info("a connection could not be replaced yet", reason=e.reason, text=e.text)
            except Exception as e:
                if isinstance(e, CancelledError) and current() is None:
                    raise
                # Whatever it was: the connection would be used past the end of a certificate.
                _log.failure("a connection could not be replaced yet", reason="internal")
            if (shown := current()) is not None:
                await self._wait(self._pause(shown))

    def _pause(self, shown: Shown) -> float:
        left, life = shown.end - self.now(), shown.lifetime
        return min(_LONGEST_PAUSE, max(left / 8, min(_SHORTEST_PAUSE, life / 30)))

    async def _wait(self, seconds: float) -> None:
        """So long, or until we have renewed."""
        waiting: Deferred[None] = Deferred()
        self._waiting.append(waiting)
        timer = None
        if seconds < inf:
            timer = self.clock.callLater(seconds, self._over, waiting)
        try:
            await waiting
        finally:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
            if timer is not None and timer.active():
                timer.cancel()

    def _over(self, waiting: Deferred[None]) -> None:
        if not waiting.called:
            waiting.callback(None)

    def _renewed(self, _: CertificateFacts) -> None:
        for waiting in tuple(self._waiting):
            # In the next turn: whoever renews us is not to fail by what wakes now.
            self.clock.callLater(0, self._over, waiting)


async def close_when_idle(channel: IRpcChannel, clock: IReactorTime) -> None:
    """Let a connection that was left finish its calls, then close it; at once if cancelled.

    Spawned by whoever moved away from it.
    """
    try:
        while channel.open_streams:
            await deferLater(clock, _LOOK_SECS)
    finally:
        await channel.close()


def _same(one: CertificateFacts | None, other: CertificateFacts | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.sha256 == other.sha256
