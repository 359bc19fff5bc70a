"""Renews our certificate in the background, long before it expires.

A renewal is tried at two thirds of the leaf's life.  While it fails the old
material stays in force, on disk and in memory; after the leaf's end the tries
go on (an operator may still have to re-enroll us), but no token is ever used.
The life is counted from the issue, not from the backdated beginning, so leafs
of a few seconds work.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Literal

from twisted.application.service import Service
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from svc.errors import SvcError
from svc.model.certificate import CertificateFacts
from svc.model.clocks import MAX_APART_SECS, ClockWrong, apart
from svc.model.ids import Entropy
from svc.pki import profile
from svc.pki.identity import TransportIdentity
from svc.pki.identity_store import IdentityStore
from svc.pki.issue import make_request
from svc.runtime.backoff import Backoff, share
from svc.runtime.services import bounded, cancel

_log = Logger(namespace="svc_pki")

RENEW_AT = 2 / 3
JITTER = 0.1
FIRST_RETRY = 30.0
LAST_RETRY = 300.0
LOOK_AGAIN = 600.0
"""The longest sleep in seconds: a host clock that was set is noticed within it."""

Renew = Callable[[bytes], Awaitable[tuple[bytes, ...]]]
"""``await renew(csr)``: asks Authority with our current certificate; gives DER, leaf first."""

OnOutcome = Callable[[Literal["ok", "failed"]], object]


class RenewalLoop(Service):
    """Keeps one identity fresh for as long as it runs.

    Args:
        identity: What is renewed.
        store: Where it is kept; written before it is put in force.
        renew: See Renew; given up after a sixth of the leaf's life, 30 s at most.
        clock: Timers.
        now: Wall time.
        entropy: Of the jitter.
        on_outcome: Hears the outcome of each try.
        alone: Entered for each try; needed where other processes change the store's identity.
    """

    def __init__(
        self,
        identity: TransportIdentity,
        store: IdentityStore,
        renew: Renew,
        *,
        clock: IReactorTime,
        now: profile.WallTime,
        entropy: Entropy,
        on_outcome: OnOutcome,
        alone: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self._identity = identity
        self._store = store
        self._renew = renew
        self._clock = clock
        self._now = now
        self._entropy = entropy
        self._on_outcome = on_outcome
        self._alone = alone
        self._waits = self._backoff()
        self._due = 0.0
        self._timer: IDelayedCall | None = None
        self._trying: Deferred[None] | None = None

    def startService(self) -> None:
        """Begin to watch the leaf; a leaf already past its time is renewed at once."""
        Service.startService(self)
        self._plan()

    def stopService(self) -> Deferred[None]:
        """Stop watching; fires when a try under way has ended."""
        Service.stopService(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return cancel(self._trying)

    def _plan(self) -> None:
        """Choose when this leaf is to be renewed."""
        facts = self._identity.facts
        life_share = RENEW_AT * (1 + JITTER * (2 * share(self._entropy) - 1))
        self._due = facts.not_after - (1 - life_share) * lifetime(facts)
        self._sleep()

    def _sleep(self) -> None:
        wait = min(max(0.0, self._due - self._now()), LOOK_AGAIN)
        self._timer = self._clock.callLater(wait, self._wake)

    def _wake(self) -> None:
        self._timer = None
        if self._now() < self._due:
            self._sleep()
            return
        self._begin()

    def _begin(self) -> None:
        self._timer = None
        self._trying = Deferred.fromCoroutine(self._try())
        self._trying.addErrback(self._failed)
        self._trying.addBoth(self._ended)

    async def _try(self) -> None:
        with self._alone():
            await self._ask_and_keep()

    async def _ask_and_keep(self) -> None:
        key = self._store.pending_key()
        timeout = min(FIRST_RETRY, lifetime(self._identity.facts) / 6)
        chain = await bounded(
            self._clock, timeout, self._renew(make_request(key)), "renewing the identity"
        )
        material = self._identity.accept(key, tuple(chain))
        self._store.write(key, chain)
        self._identity.replace(material)
        self._waits = self._backoff()
        facts = material.facts
        _log.info("identity renewed", serial=facts.serial, generation=facts.generation)
        self._compare_clocks(facts)
        self._on_outcome("ok")

    def _compare_clocks(self, fresh: CertificateFacts) -> None:
        """A certificate just issued shows Authority's time, to within the call's seconds."""
        ours = self._now()
        if abs(ours - fresh.issued_at) > MAX_APART_SECS:
            _log.warn(
                "this machine's clock and Authority's do not agree: set the clock",
                clock=apart(ours, fresh.issued_at),
                reason=ClockWrong.reason,
            )

    def _failed(self, failure: Failure) -> float:
        """Every way a try can fail ends here: logged, counted; seconds until the next."""
        error = failure.value
        if isinstance(error, CancelledError) and not self.running:
            return 0.0
        left = self._identity.seconds_left()
        if isinstance(error, SvcError):
            _log.warn(
                "identity renewal failed", reason=error.reason, error=error.text, seconds_left=left
            )
        else:
            _log.failure("identity renewal failed", failure, seconds_left=left)
        self._on_outcome("failed")
        return self._waits.next()

    def _ended(self, retry_in: float | None) -> None:
        self._trying = None
        if not self.running:
            return
        if retry_in is None:
            self._plan()
        else:
            self._timer = self._clock.callLater(retry_in, self._begin)

    def _backoff(self) -> Backoff:
        """30 s, doubling to 5 min, less for leafs that live for minutes; jittered upwards."""
        life = lifetime(self._identity.facts)
        return Backoff(
            first=min(FIRST_RETRY, life / 60),
            longest=min(LAST_RETRY, life / 10) / (1 + 2 * JITTER),
            jitter=lambda seconds: seconds * (1 + 2 * JITTER * share(self._entropy)),
        )


def lifetime(facts: CertificateFacts) -> float:
    """Seconds from a certificate's issue to its end, never below one."""
    return facts.lifetime
