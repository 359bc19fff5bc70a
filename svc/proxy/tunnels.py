"""``gate.v1.Tunnel``: Connectors come in, Authority says who may stay.

Authority decides every registration; the Proxy carries the challenge, the
signed registration and the verdict, and keeps the tunnel while Authority is
away.  When Authority is back, the Connector is challenged again on the same
tunnel.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IProtocol, IReactorTime
from twisted.logger import Logger

from svc.errors import Fault, Malformed, SvcError, Unauthenticated, Unavailable
from svc.interfaces.identity import IChainVerifier
from svc.interfaces.rpc import IRpcCall, IRpcStream, RpcService, streaming
from svc.messages.control import (
    REGISTER_METHOD,
    Evict,
    TunnelSeen,
    Verdict,
    decode_connector_down,
    encode_connector_up,
)
from svc.messages.tunnel import (
    Down,
    Goodbye,
    Hello,
    Nonce,
    OpenRefused,
    Renew,
    Renewed,
    Up,
    decode_carry_open,
    decode_registration,
    decode_up,
    encode_down,
)
from svc.model.ids import Entropy, random_id
from svc.model.principal import Role
from svc.model.registration import Accepted
from svc.model.signing import Signed
from svc.model.tunnels import EndReason
from svc.proxy.authority_link import AuthorityLink
from svc.proxy.refusals import REFUSAL_LINES, RelayStreams, as_refusal, refusal_of
from svc.rpc.frames import FrameKind, parse_frame
from svc.service import BackgroundTasks, bounded
from svc.tunnel.routes import RouteTable
from svc.tunnel.times import TunnelTimes, end_reason
from svc.tunnel.transport import RegisteredTunnel

_log = Logger(namespace="svc_proxy")

_FIRST_WORD_SECS = 10.0


@define
class TunnelService:
    """Serves Connectors on the public listener."""

    routes: RouteTable
    link: AuthorityLink
    verifier: IChainVerifier
    streams: RelayStreams
    tasks: BackgroundTasks
    clock: IReactorTime
    entropy: Entropy
    times: TunnelTimes

    def service(self) -> RpcService:
        """The methods, as the RPC server takes them."""
        methods = {"Register": streaming(self._register), "Carry": streaming(self._carry)}
        return RpcService("gate.v1.Tunnel", methods)

    def node_of(self, call: IRpcCall) -> str:
        """The Connector's node id from its certificate, checked now (R13)."""
        if not call.peer.chain:
            raise Unauthenticated("a tunnel takes a Connector's certificate")
        return self.verifier.verify(call.peer.chain, {Role.CONNECTOR}).principal.id

    async def _register(self, call: IRpcCall) -> None:
        node_id = self.node_of(call)
        registering = Registering(self, call, node_id)
        await registering.run()

    async def _carry(self, call: IRpcCall) -> None:
        self.node_of(call)
        data = await bounded(self.clock, _FIRST_WORD_SECS, call.receive(), "carry")
        if data is None:
            raise Malformed("carry: no message came")
        kind, payload = parse_frame(data)
        if kind is not FrameKind.OPEN:
            raise Malformed("carry: the first frame does not open")
        uid, secret = decode_carry_open(bytes(payload))
        # A connection has one Peer object: a stream reaches only its own connection's tunnel.
        tunnel = self.routes.tunnel_on(call.peer)
        if tunnel is None:
            raise SvcError(
                "no open session waits for this stream", reason="carry_refused", fault=Fault.DENIED
            )

        def attach(protocol: IProtocol) -> Deferred[object]:
            return protocol.carried_by(call)  # type: ignore[attr-defined, no-any-return]

        await tunnel.carry(uid, secret, attach)


@define(eq=False)
class Registering:
    """One ``Register`` call, from the hello to the end of its tunnel."""

    service: TunnelService
    call: IRpcCall
    node_id: str
    tunnel: RegisteredTunnel | None = None
    _over: Deferred[EndReason] = field(factory=Deferred)
    _answers: deque[Signed] = field(factory=deque)
    _answered: Deferred[None] | None = None
    _outbox: deque[Down] = field(factory=deque)
    _saying: bool = False
    _instance_id: str = ""

    async def run(self) -> None:
        """Serve the call; raises the refusal, or why the tunnel was ended."""
        said = await self._hear()
        if not isinstance(said, Hello):
            raise Malformed("tunnel: the first message is not a hello")
        self._instance_id = said.instance_id
        self.service.tasks.spawn("read a tunnel", self._read())
        try:
            stream = await self._first_registration()
        except SvcError as refusal:
            self._log_refusal(refusal)
            self.service.routes.refuse(self.node_id, refusal.reason)
            raise
        self.call.on_cancel(lambda why: self._end(end_reason(why.reason)))
        self.service.tasks.spawn("keep a registration", self._keep(stream))
        reason = await self._over
        if reason is EndReason.CLOSED:
            return
        raise SvcError(
            f"the tunnel was ended: {reason.value}", reason=reason.value, fault=Fault.ABORTED
        )

    # -- registration

    async def _first_registration(self) -> IRpcStream:
        stream, signed, verdict = await self._round()
        registration = decode_registration(signed.payload)
        times = self.service.times
        tunnel = RegisteredTunnel(
            self.node_id,
            registration.instance_id,
            registration.generation,
            frozenset(verdict.served),
            connection=self.call.peer,
            clock=self.service.clock,
            entropy=self.service.entropy,
            say=self._say,
            hang_up=self._hung_up,
            times=times,
        )
        self.service.routes.register(tunnel)
        self.tunnel = tunnel
        self._say(Accepted(int(times.lease), verdict.withheld))
        return stream

    async def _round(self) -> tuple[IRpcStream, Signed, Verdict]:
        """Challenge, registration, verdict; over a new stream to Authority.

        Raises:
            SvcError: the verdict is a refusal, or Authority cannot be asked.
        """
        stream = self._relay_stream()
        try:
            seen = TunnelSeen(random_id(self.service.entropy), self.node_id)
            await stream.send(encode_connector_up(seen))
            nonce = await self._from_authority(stream)
            if not isinstance(nonce, Nonce):
                raise Malformed("Authority sent no challenge")
            self._say(nonce)
            signed = await bounded(
                self.service.clock, self.service.times.acknowledge, self._answer(), "registration"
            )
            await stream.send(encode_connector_up(signed))
            verdict = await self._from_authority(stream)
        except SvcError as e:
            stream.cancel("registration failed")
            raise as_refusal(e) from None
        if not isinstance(verdict, Verdict):
            stream.cancel("no verdict")
            raise refusal_of("malformed_registration", "Authority gave no verdict")
        if not verdict.accepted:
            self.service.streams.outcome("refused")
            raise refusal_of(verdict.reason, verdict.text)
        return stream, signed, verdict

    def _relay_stream(self) -> IRpcStream:
        try:
            return self.service.link.channel().stream(REGISTER_METHOD)
        except SvcError:
            self.service.streams.outcome("dial_failed")
            raise refusal_of(
                "authority_unreachable", "Authority cannot be reached from this Proxy"
            ) from None

    async def _from_authority(self, stream: IRpcStream) -> object:
        seconds = self.service.times.acknowledge
        data = await bounded(self.service.clock, seconds, stream.receive(), "Authority")
        if data is None:
            raise Unavailable("Authority ended the registration", reason="authority_unreachable")
        return decode_connector_down(data)

    async def _keep(self, stream: IRpcStream) -> None:
        """Follow Authority for as long as the tunnel lives, over its absences."""
        while not self._over.called:
            with self.service.streams.open():
                await self._until_away(stream)
            if self._over.called:
                return
            stream = await self._again()

    async def _until_away(self, stream: IRpcStream) -> None:
        self._over.addBoth(_passed_on(lambda: stream.cancel("tunnel over")))
        try:
            data = await stream.receive()
        except SvcError as e:
            _log.info("a registration lost Authority", node=self.node_id, reason=e.reason)
            return
        said = None if data is None else decode_connector_down(data)
        if isinstance(said, Evict):
            _log.warn("tunnel evicted", node=self.node_id, reason=said.reason)
            self._end(EndReason.EVICTED)

    async def _again(self) -> IRpcStream:
        """Register anew once Authority is back; a refusal then is an eviction."""
        while True:
            waiting = self.service.link.next_channel()
            self._over.addBoth(_passed_on(waiting.cancel))
            await waiting
            try:
                stream, signed, verdict = await self._round()
            except SvcError as e:
                if e.fault is not Fault.UNAVAILABLE and e.fault is not Fault.DEADLINE:
                    self._log_refusal(e)
                    self._end(EndReason.EVICTED)
                    raise
                continue
            if self.tunnel is not None:
                generation = decode_registration(signed.payload).generation
                resources = frozenset(verdict.served)
                self.service.routes.change(self.tunnel, generation, resources)
            return stream

    # -- the Connector's side

    async def _hear(self) -> Up:
        data = await bounded(self.service.clock, _FIRST_WORD_SECS, self.call.receive(), "tunnel")
        if data is None:
            raise Malformed("tunnel: it ended before it began")
        return decode_up(data)

    async def _read(self) -> None:
        try:
            while (data := await self.call.receive()) is not None:
                self._heard(decode_up(data))
        except SvcError as e:
            self._end(end_reason(e.reason))
            return
        self._end(EndReason.CLOSED)

    def _heard(self, said: Up) -> None:
        match said:
            case Signed():
                self._answers.append(said)
                if self._answered is not None:
                    answered, self._answered = self._answered, None
                    answered.callback(None)
            case Renew() if self.tunnel is not None:
                self.tunnel.renew()
                self._say(Renewed())
            case OpenRefused() if self.tunnel is not None:
                self.tunnel.refused(said.session_uid, said.reason)
            case Goodbye():
                self._end(EndReason.CLOSED)
            case _:
                raise Malformed("tunnel: a message out of order")

    async def _answer(self) -> Signed:
        if not self._answers:
            self._answered = Deferred()
            await self._answered
        return self._answers.popleft()

    def _say(self, said: Down) -> None:
        self._outbox.append(said)
        if not self._saying:
            self._saying = True
            self.service.tasks.spawn("speak to a tunnel", self._speak())

    async def _speak(self) -> None:
        try:
            while self._outbox:
                await self.call.send(encode_down(self._outbox.popleft()))
        except SvcError as e:
            self._end(end_reason(e.reason))
        finally:
            self._saying = False

    # -- ends

    def _end(self, reason: EndReason) -> None:
        """The first reason wins; the tunnel tells the routes, the routes tell the rest."""
        if self.tunnel is not None:
            self.tunnel.close(reason)
        elif self._answered is not None:
            answered, self._answered = self._answered, None
            answered.errback(Unavailable("the Connector went away", reason="transport_error"))

    def _hung_up(self, reason: EndReason) -> None:
        if not self._over.called:
            self._over.callback(reason)

    def _log_refusal(self, refusal: SvcError) -> None:
        line = REFUSAL_LINES.get(refusal.reason, "a registration was refused")
        _log.warn(line, node=self.node_id, reason=refusal.reason, text=refusal.text)


def _passed_on(call: Callable[[], object]) -> Callable[[object], object]:
    def run(result: object) -> object:
        call()
        return result

    return run
