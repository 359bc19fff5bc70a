"""One ``Tunnel/Register`` call, from its hello to the end of its tunnel.

Authority decides, here the words are carried: its challenge down, the node's
signed registration up, its verdict down.  A call is refused once, or it is
registered and ended once with one reason; whatever runs for it beside the
handler ends with the handler.
"""

from __future__ import annotations

from attrs import define, evolve, field
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from svc.errors import Fault, Malformed, SvcError
from svc.interfaces.rpc import IHeardCall
from svc.messages.control import AGAIN, Evict, RegistrationVerdict
from svc.messages.tunnel import (
    Goodbye,
    Hello,
    OpenRefused,
    Renew,
    Renewed,
    Up,
    decode_registration,
    decode_up,
    encode_up,
)
from svc.model.cluster.registration import AcceptedRegistration, Registration
from svc.model.principal import Principal
from svc.model.session.ending import PROXY_REVOKED
from svc.model.session.tunnels import EndReason
from svc.model.signing import Signed
from svc.proxy.tunnels.down_queue import JUST_RENEWED, DownQueue
from svc.proxy.tunnels.parts import RegistrationParts, node_of
from svc.proxy.tunnels.refusals import (
    UNASSIGNED,
    as_refusal,
    is_counted_already,
    refusal_line,
    refusal_of,
)
from svc.proxy.tunnels.verdicts import AcknowledgedRegistration, PendingRegistration
from svc.runtime.backoff import Backoff
from svc.runtime.services import BackgroundTasks, bounded
from svc.tunnel.times import end_reason
from svc.tunnel.transport import RegisteredTunnel

_log = Logger(namespace="svc_proxy")

_FIRST_WORD_SECS = 10.0
_FIRST_WAIT = 1.0
_LONGEST_WAIT = 15.0
_GONE = frozenset({Fault.UNAVAILABLE, Fault.CANCELLED, Fault.DEADLINE})
_LATER = frozenset({Fault.UNAVAILABLE, Fault.EXHAUSTED})
"""Says nothing about the registration."""

_JUST_RENEW = Renew()
_RENEW = encode_up(_JUST_RENEW)
"""What most messages are, as they travel."""

_Accepted = tuple[AcknowledgedRegistration, RegistrationVerdict, Registration]


@define(eq=False)
class RegistrationCall:
    """See the module.

    Attributes:
        node: The Connector, once it is served.
        tunnel: Once it is registered.
    """

    service: RegistrationParts
    call: IHeardCall
    node: Principal = field(init=False)
    tunnel: RegisteredTunnel | None = None
    _tasks: BackgroundTasks = field(factory=BackgroundTasks)
    _over: Deferred[EndReason] = field(factory=Deferred)
    _answer: Deferred[Signed] | None = None
    _silenced: SvcError | None = None
    _outbox: DownQueue = field(init=False)
    _standing: AcknowledgedRegistration | None = field(default=None, init=False)
    _since: float = field(default=0.0, init=False)
    """When that one was accepted, in seconds of the clock."""

    _waits: Backoff | None = field(default=None, init=False)
    """Between registrations that Authority ends soon; None where it has not ended one so."""

    def __attrs_post_init__(self) -> None:
        self._outbox = DownQueue(self.call, self._tasks, self._end)

    @property
    def node_id(self) -> str:
        """Of the Connector."""
        return self.node.id

    async def run(self) -> None:
        """Serve the call; raises the refusal, or why the tunnel was ended."""
        self.node = node_of(self.call)
        try:
            standing = await self._registered()
            try:
                self._keep(standing)
                reason = await self._over
            finally:
                # Nothing of the tunnel is left, whatever ended this handler.
                self._end(EndReason.TRANSPORT_ERROR)
        finally:
            self.call.listen_no_more()
            self._let_go()
            await self._tasks.stopService()
        if reason is not EndReason.CLOSED:
            raise SvcError(
                f"the tunnel was ended: {reason.value}", reason=reason.value, fault=Fault.ABORTED
            )

    # -- registration

    async def _registered(self) -> AcknowledgedRegistration:
        """Everything up to the tunnel's place in the route table.

        Raises:
            SvcError: the refusal; logged and counted, each once.
        """
        try:
            hello = await self._first_word()
            self.call.listen(self)
            standing, verdict, registration = await self.service.queue.first(
                self.node_id, self._round
            )
            try:
                self._register(registration, verdict, hello)
            except BaseException:
                standing.over()
                raise
        except CancelledError:
            raise
        except SvcError as e:
            if e is self._silenced and e.fault in _GONE:
                raise  # The Connector left; nobody refused it.
            refusal = as_refusal(e)
            self._log_refusal(refusal)
            if not is_counted_already(refusal):
                self.service.routes.refuse(self.node_id, refusal.reason)
            raise refusal from None
        return standing

    def _register(
        self, registration: Registration, verdict: RegistrationVerdict, hello: Hello
    ) -> None:
        if self._silenced is not None:
            raise self._silenced
        service = self.service
        tunnel = RegisteredTunnel(
            node_id=self.node_id,
            instance_id=registration.instance_id,
            generation=registration.generation,
            resources=tuple(dict.fromkeys(verdict.served)),
            connection=self.call.peer,
            clock=service.clock,
            entropy=service.entropy,
            send=self._outbox.send,
            hang_up=self._hung_up,
            times=service.times,
            takes_lanes=hello.takes_lanes,
            takes_first_flight=hello.takes_first_flight,
            inventory=verdict.inventory,
        )
        service.routes.register(tunnel)
        self.tunnel = tunnel
        self.call.on_cancel(self._call_ended)
        self.call.keep_alive(service.times.keepalive_interval, service.times.keepalive_timeout)
        self._accept(verdict)

    def _accept(self, verdict: RegistrationVerdict) -> None:
        lease = max(1, int(self.service.times.lease))
        self._outbox.send(AcceptedRegistration(lease, verdict.withheld, verdict.inventory))

    async def _round(self) -> _Accepted:
        """Challenge, registration, verdict; over a new stream to Authority."""
        asking = PendingRegistration.begin(self.service, self.node_id)
        try:
            self._outbox.send(await asking.challenge())
            signed = await self._signed()
            registration = decode_registration(signed.payload)
            if registration.node_id != self.node_id:
                raise Malformed(
                    "tunnel: the registration names a different node from the certificate"
                )
            verdict = await asking.verdict(signed)
            return asking.acknowledged(), verdict, registration
        except BaseException:
            asking.over()
            raise

    async def _signed(self) -> Signed:
        if self._silenced is not None:
            raise self._silenced
        self._answer = Deferred()
        # Authority waits no longer either, and others wait for this one's turn to be over.
        seconds = min(_FIRST_WORD_SECS, self.service.times.acknowledge)
        try:
            return await bounded(self.service.clock, seconds, self._answer, "registration")
        except SvcError as e:
            if e.fault is Fault.DEADLINE:
                raise refusal_of("malformed_registration", "no registration arrived") from None
            raise
        finally:
            self._answer = None

    # -- while it is registered

    def _keep(self, standing: AcknowledgedRegistration) -> None:
        """Follow Authority from now on; a tunnel is never left unfollowed."""
        self._standing, self._since = standing, self.service.clock.seconds()
        self.service.streams.opened()
        standing.follow(self._withdrawn)

    def _let_go(self) -> None:
        """Follow Authority no more.  Idempotent."""
        standing, self._standing = self._standing, None
        if standing is not None:
            standing.over()
            self.service.streams.ended()

    def _withdrawn(self, evicted: Evict | None) -> None:
        """Authority takes the registration back, or cannot be reached (None).

        Raises nothing: what called this reads the connection to Authority, on which every other
        tunnel depends.
        """
        try:
            self._act_on_withdrawal(evicted)
        except Exception:
            _log.failure("the end of a registration could not be acted on", node=self.node_id)
            self._end(EndReason.TRANSPORT_ERROR)

    def _act_on_withdrawal(self, evicted: Evict | None) -> None:
        self._let_go()
        asked = evicted is not None and evicted.reason == AGAIN
        if evicted is not None and not asked:
            self._evict(evicted)
        elif self.tunnel is not None and self.tunnel.is_over:
            # It handed over: the newer registration is the one to keep.
            self._end(EndReason.TRANSPORT_ERROR)
        else:
            self._tasks.spawn("register again", self._register_again(asked=asked))

    async def _register_again(self, *, asked: bool) -> None:
        try:
            standing = await self._again(*self._next_wait(asked=asked))
            if standing is not None:
                self._keep(standing)
            else:
                self._end(EndReason.TRANSPORT_ERROR)
        except BaseException:
            self._end(EndReason.TRANSPORT_ERROR)
            raise

    def _next_wait(self, *, asked: bool) -> tuple[float, Backoff]:
        """How long to wait before the registration is made again, and what to go on with.

        An Authority that is away is waited for; one that is there and ends registrations is not
        asked in a storm.
        """
        lasted = self.service.clock.seconds() - self._since
        if asked or not self.service.link.is_connected or lasted >= _LONGEST_WAIT:
            self._waits = None
            return 0.0, Backoff(_FIRST_WAIT, _LONGEST_WAIT)
        self._waits = self._waits or Backoff(_FIRST_WAIT, _LONGEST_WAIT)
        pause = self._waits.next()
        return pause, evolve(self._waits)

    def _evict(self, evicted: Evict) -> None:
        if evicted.reason == PROXY_REVOKED:
            self.service.proxy_revoked()
        _log.warn("tunnel evicted", node=self.node_id, reason=evicted.reason)
        self._end(EndReason.EVICTED)

    async def _again(self, pause: float, waits: Backoff) -> AcknowledgedRegistration | None:
        """Register again once Authority is back, without a redial; a refusal then evicts us."""
        while True:
            if waits.failures > 1:  # after the first it is tried at once
                await deferLater(self.service.clock, pause)
            await self.service.link.next_channel()
            try:
                standing, verdict, registration = await self.service.queue.again(self._round)
            except SvcError as e:
                refusal = as_refusal(e)
                if refusal.fault in _LATER:
                    pause = waits.next()
                    continue
                self._log_refusal(refusal)
                if refusal.reason in UNASSIGNED:
                    # First: its tunnel's end would tell its sessions that it was revoked.
                    self.service.unassigned(self.node_id)
                if refusal.reason != "malformed_registration":
                    self._end(EndReason.EVICTED)
                return None
            if self.tunnel is not None:
                self.service.routes.change(
                    self.tunnel,
                    registration.generation,
                    tuple(dict.fromkeys(verdict.served)),
                    verdict.inventory,
                )
                self._accept(verdict)
            return standing

    # -- the Connector's side

    async def _first_word(self) -> Hello:
        try:
            data = await bounded(
                self.service.clock, _FIRST_WORD_SECS, self.call.receive(), "tunnel"
            )
        except SvcError as e:
            if e.reason == "deadline":
                raise Malformed("tunnel: no hello arrived") from None
            raise
        message = None if data is None else decode_up(data)
        if not isinstance(message, Hello):
            raise Malformed("tunnel: the first message is not a hello")
        return message

    def readable(self) -> None:
        """Act on what the Connector says after its hello."""
        try:
            while (data := self.call.take()) is not None:
                if self._act_on(_JUST_RENEW if data == _RENEW else decode_up(bytes(data))):
                    self._left()
                    return
        except SvcError as e:
            self.broken(e)
            return
        if self.call.has_ended:
            self._left()

    def drained(self) -> None:
        """Nothing waits for room but the outbox, which is told by what it waits for."""

    def broken(self, refusal: SvcError) -> None:
        """The call is over, or no more can be made of what came."""
        self.call.listen_no_more()
        self._silence(refusal)
        self._end(end_reason(refusal.reason))

    def _left(self) -> None:
        """The Connector has said goodbye, or ended its half."""
        self.call.listen_no_more()
        self._silence(
            SvcError("the Connector disconnected", reason="closed", fault=Fault.CANCELLED)
        )
        self._end(EndReason.CLOSED)

    def _act_on(self, message: Up) -> bool:
        """Act on one message; whether it was the last."""
        self.service.rates.message_sent(self.node)
        match message:
            case Signed() if self._answer is not None:
                self._give(message)
            case Renew(health=health) if self.tunnel is not None:
                self.tunnel.renew()
                self._outbox.send(JUST_RENEWED if health is None else self._report(health))
            case OpenRefused() if self.tunnel is not None:
                self.tunnel.refused(message.session_uid, message.reason)
            case Goodbye():
                return True
            case _:
                raise Malformed("tunnel: a message arrived out of order")
        return False

    def _report(self, health: Signed) -> Renewed:
        try:
            self.service.check_not_revoked(self.node)
            self.service.bring_health(self.node.id, health)
        except SvcError as refused:
            _log.debug("a health report was not taken", node=self.node.id, reason=refused.reason)
            return Renewed(health_taken=False)
        return Renewed(health_taken=True)

    def _silence(self, why: SvcError) -> None:
        """Nothing more is heard: who waits for a registration waits no longer."""
        self._silenced = why
        self._give(Failure(why))

    def _give(self, answer: Signed | Failure) -> None:
        """In the next turn: who waits may end the reader, which is what called this."""
        waiting, self._answer = self._answer, None
        if waiting is not None:
            self.service.clock.callLater(0, _answered, waiting, answer)

    # -- ends

    def _end(self, reason: EndReason) -> None:
        """The first reason wins; the tunnel tells the routes, the routes tell the rest."""
        if self.tunnel is not None:
            self.tunnel.close(reason)

    def _call_ended(self, why: SvcError) -> None:
        self._end(end_reason(why.reason))

    def _hung_up(self, reason: EndReason) -> None:
        # In the next turn: whoever ends the tunnel may be one of the tasks that end with it.
        self.service.clock.callLater(0, self._fire, reason)

    def _fire(self, reason: EndReason) -> None:
        if not self._over.called:
            self._over.callback(reason)

    def _log_refusal(self, refusal: SvcError) -> None:
        _log.warn(
            "{cause}",
            cause=refusal_line(refusal.reason),
            node=self.node_id,
            reason=refusal.reason,
            text=refusal.text,
        )


def _answered(waiting: Deferred[Signed], answer: Signed | Failure) -> None:
    if not waiting.called:
        waiting.callback(answer)
