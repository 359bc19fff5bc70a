"""Tells Authority what a gated session passed on, so that its grant is prolonged."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from svc.errors import SvcError
from svc.interfaces.identity import IChainVerifier
from svc.messages.gated import (
    CheckpointAnswer,
    decode_extension,
    encode_checkpoint,
)
from svc.model.session.checkpoint import EVERY_SECS, SessionCheckpoint
from svc.model.session.ending import SESSION_MISMATCH
from svc.model.session.gated import GatedReceiver
from svc.model.session.grant import Grant
from svc.model.session.ranges import RequestChain
from svc.model.signing import Purpose, Signed
from svc.runtime.services import bounded
from svc.tunnel.grant_end import GrantEnd

_log = Logger(namespace="svc_connector")

_ANSWER_SECS = 20.0


@define(eq=False)
class SessionCheckpoints:
    """Of one session.

    Attributes:
        send: Takes a signed checkpoint to Authority, through the Proxy of the session.
        last: Takes the last one, through whatever Proxy.
        sign: With our node's key.
        end: Of the session's time; only Authority's own word puts it off.
    """

    grant: Grant
    receiver: GatedReceiver
    chain: RequestChain
    send: Callable[[Signed], Awaitable[CheckpointAnswer]]
    last: Callable[[SessionCheckpoint], Awaitable[None]]
    sign: Callable[[bytes], Signed]
    verifier: IChainVerifier
    clock: IReactorTime
    end: GrantEnd
    _n: int = field(default=0, init=False)
    _next: IDelayedCall | None = field(default=None, init=False)
    _making: Deferred[None] | None = field(default=None, init=False)
    _is_over: bool = field(default=False, init=False)

    def start(self) -> None:
        """Make one every 30 seconds."""
        self._next = self.clock.callLater(EVERY_SECS, self._due)

    def stop(self) -> None:
        """Make no more of them by itself.  Idempotent."""
        self._is_over = True
        if self._next is not None and self._next.active():
            self._next.cancel()
        if self._making is not None:
            self._making.cancel()

    async def finish(self, reason: str) -> None:
        """Make the last one: the session is over, for this reason."""
        self.stop()
        await self.last(self._made_now(reason))

    def _due(self) -> None:
        self.start()
        if self._making is None:
            self._making = Deferred.fromCoroutine(self._make())
            self._making.addBoth(self._made)

    def _made(self, outcome: object) -> None:
        self._making = None
        if isinstance(outcome, Failure) and not outcome.check(CancelledError):
            _log.failure("a checkpoint failed", outcome)

    def _made_now(self, reason: str = "") -> SessionCheckpoint:
        grant = self.grant
        self._n += 1
        return SessionCheckpoint(
            cluster=grant.cluster,
            session_uid=grant.session_uid,
            connector_id=grant.connector_id,
            n=self._n,
            decisions=self.chain.count,
            head=self.chain.head,
            is_last=self._is_over,
            is_whole=self._is_over and self.receiver.is_whole,
            reason=reason,
        )

    async def _make(self) -> None:
        one = self._made_now()
        try:
            signed = self.sign(encode_checkpoint(one))
            sending = self.send(signed)
            answer = await bounded(self.clock, _ANSWER_SECS, sending, "a checkpoint's answer")
            self._take(answer, one)
        except CancelledError:
            raise
        except SvcError as error:
            # The next one may do better; without any the session ends by itself.
            _log.warn("a checkpoint brought nothing", session=one.session_uid, reason=error.reason)

    def _take(self, answer: CheckpointAnswer, one: SessionCheckpoint) -> None:
        if self._is_over:
            return
        if answer.extension is None:
            _log.warn("a session is not prolonged", session=one.session_uid, reason=answer.reason)
            if answer.reason == SESSION_MISMATCH:
                self.end.end(SESSION_MISMATCH)
            return
        self.verifier.verify_signed(answer.extension, Purpose.GRANT_EXTENSION)
        extension = decode_extension(answer.extension.payload)
        said = (extension.cluster, extension.session_uid, extension.n)
        if said != (one.cluster, one.session_uid, one.n):
            raise SvcError("the extension is for another checkpoint", reason="extension_refused")
        self.end.hold_until(min(extension.end_before_ms, int(self.end.certificate_end * 1000)))
