"""A Proxy under a test's control: genuine in its certificate, in nothing else to be trusted.

It joined with a genuine token, greets a real Authority, takes a real
Connector's tunnel and real clients' sessions.  By default it does what a Proxy
should; a test replaces one of its answers.  Whatever is plaintext to it after
its own TLS is kept in ``seen``.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, DeferredQueue
from twisted.internet.protocol import Factory, Protocol
from twisted.protocols.tls import TLSMemoryBIOFactory

from svc.compose.node import tls_endpoint
from svc.errors import Denied
from svc.interfaces.rpc import IRpcCall, IRpcChannel, IRpcStream, RpcService, Serve, streaming
from svc.messages.control import (
    AUTHORIZE_METHOD,
    HELLO_METHOD,
    REGISTER_METHOD,
    Ask,
    AuthorizeAnswer,
    ProxyDecision,
    RegistrationVerdict,
    TunnelSeen,
    ask_message,
    decode_connector_down,
    encode_connector_up,
    hello_message,
    read_answer,
)
from svc.messages.session import decode_open, decode_request, encode_opened
from svc.messages.tunnel import (
    SECRET_BYTES,
    Down,
    Hello,
    Nonce,
    OpenNotice,
    OpenRefused,
    Renew,
    Renewed,
    decode_carry_open,
    decode_up,
    encode_down,
)
from svc.model.cluster.registration import AcceptedRegistration
from svc.model.ids import random_id
from svc.model.principal import Role
from svc.model.signing import Signed
from svc.pki.identity import TransportIdentity
from svc.pki.tls import ClientCertificates, server_context
from svc.proto.gate.v1 import control_pb2 as pb
from svc.rpc.client.channel import dial
from svc.rpc.client.endpoints import dialed
from svc.rpc.frames import open_frame, parse_frame
from svc.rpc.server.server import RpcServerFactory
from svc.rpc.stream import StreamTransport
from tests.support.nothing import nothing
from tests.system.overheard import Overhearing, Seen, Tap, taps
from tests.system.stage import Stage, eventually, reactor, within


async def speak(call: Any, protocol: Protocol) -> None:
    """Let a protocol have the bytes of a call until it is over."""
    transport = StreamTransport(call)
    transport.start(protocol)
    await transport.closed


@define(eq=False, slots=False)
class Carry:
    """A carry stream that came: the call, and what keeps it open."""

    call: IRpcCall
    over: Deferred[None] = field(factory=Deferred)

    def end(self) -> None:
        """Let it go."""
        if not self.over.called:
            self.over.callback(None)


@define(eq=False, slots=False)
class Held:
    """A real Connector's tunnel."""

    call: IRpcCall
    node_id: str
    signed: DeferredQueue[Signed] = field(factory=DeferredQueue)
    refused: DeferredQueue[OpenRefused] = field(factory=DeferredQueue)
    carried: DeferredQueue[tuple[str, bytes, Carry]] = field(factory=DeferredQueue)

    async def say(self, said: Down) -> None:
        """Send one message down."""
        await self.call.send(encode_down(said))

    async def registration(self, nonce: bytes) -> Signed:
        """A registration that the Connector signs over a nonce of our choice."""
        await self.say(Nonce(nonce))
        return await within(self.signed.get())

    async def refusal(self, notice: OpenNotice) -> str:
        """Send a notice that must be refused; the Connector's word."""
        await self.say(notice)
        said = await within(self.refused.get())
        assert said.session_uid == notice.session_uid, said
        return said.reason

    async def opened(self, notice: OpenNotice) -> Carry:
        """Send a notice; the carry stream that came for it."""
        await self.say(notice)
        uid, secret, carry = await within(self.carried.get())
        assert (uid, secret) == (notice.session_uid, notice.secret), uid
        return carry


@define(eq=False, slots=False)
class HostileProxy:
    """See the module.

    Attributes:
        on_open: What it does with a person's session, given the signed bytes.
        on_lane: What it does with a caller of the join lane.
        alter: What it makes of the bytes of sessions it carries; ``carried`` are its latest ends.
        asked: Every session request that passed, with signature and chain.
    """

    stage: Stage
    name: str
    seen: Seen = field(factory=Seen)
    on_open: Callable[[IRpcCall, Ask], Awaitable[None]] = field(init=False)
    on_lane: Serve = field(init=False)
    alter: Callable[[bytes], bytes] = field(default=lambda data: data)
    carried: tuple[Tap, Tap] = field(init=False)
    asked: list[Ask] = field(factory=list)
    grants: list[AuthorizeAnswer] = field(factory=list)
    tunnels: list[Held] = field(factory=list)
    control: IRpcChannel = field(init=False)
    _ending: list[Callable[[], Any]] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.on_open, self.on_lane = self.carry, self.relay

    @property
    def identity(self) -> TransportIdentity:
        """Its genuine identity."""
        return self.stage.proxies[self.name]

    @property
    def id(self) -> str:
        """Its node id."""
        return self.identity.principal.id

    # -- life

    async def start(self, listen: bool = True) -> HostileProxy:
        """Greet Authority, and listen."""
        endpoint = tls_endpoint(
            reactor, self.identity, self.stage.address("control"), frozenset({Role.AUTHORITY})
        )
        self.control = await dial(endpoint, reactor, authority="authority")
        self._ending.append(self.control.close)
        greeting = hello_message("0.11.0", random_id(os.urandom), ())
        await self.control.unary(HELLO_METHOD, greeting, pb.HelloResponse, timeout=10)
        if listen:
            self._listen()
        return self

    def _listen(self) -> None:
        services = [
            RpcService("gate.v1.Relay", {"Open": streaming(lambda call: self.on_lane(call))}),
            RpcService("gate.v1.Session", {"Open": streaming(self._open)}),
            RpcService(
                "gate.v1.Tunnel",
                {"Register": streaming(self._register), "Carry": streaming(self._carry)},
            ),
        ]
        server = RpcServerFactory(services, reactor, admit=nothing)
        tls = server_context(self.identity, ClientCertificates.OPTIONAL)
        factory = TLSMemoryBIOFactory(tls, False, Overhearing(server, self.seen))
        held = self.stage.ports[self.name]
        port = reactor.adoptStreamPort(held.fileno(), socket.AF_INET, factory)
        self._ending += [lambda: server.drain(0), port.stopListening]

    async def stop(self) -> None:
        """Leave nothing in the reactor.  Idempotent."""
        while self._ending:
            await self._ending.pop()()

    # -- towards Authority

    def decision(self, **said: Any) -> ProxyDecision:
        """Its own word: always allow."""
        return ProxyDecision(random_id(os.urandom), "allow", **said)

    async def authorize(self, ask: Ask) -> AuthorizeAnswer:
        """Put a request before Authority."""
        message = ask_message(ask)
        answer = await self.control.unary(
            AUTHORIZE_METHOD, message, pb.AuthorizeResponse, timeout=10
        )
        return read_answer(answer)

    async def challenge(self, node_id: str) -> tuple[IRpcStream, bytes]:
        """Claim to have seen a node; the stream, and Authority's nonce."""
        stream = self.control.stream(REGISTER_METHOD)
        seen = TunnelSeen(random_id(os.urandom), node_id)
        await stream.send(encode_connector_up(seen))
        said = decode_connector_down(await stream.receive() or b"")
        assert isinstance(said, Nonce), said
        return stream, said.nonce

    async def submit(self, stream: IRpcStream, signed: Signed) -> RegistrationVerdict:
        """Answer the challenge; what Authority says."""
        await stream.send(encode_connector_up(signed))
        said = decode_connector_down(await stream.receive() or b"")
        assert isinstance(said, RegistrationVerdict), said
        return said

    # -- towards the Connector

    async def tunnel(self) -> Held:
        """The real Connector's newest tunnel, waited for."""
        await eventually("a tunnel", lambda: self.tunnels, [self.stage.connector])
        return self.tunnels[-1]

    async def _register(self, call: IRpcCall) -> None:
        hello = decode_up(await call.receive() or b"")
        assert isinstance(hello, Hello), hello
        node = self.identity.verifier.verify(call.peer.chain, {Role.CONNECTOR}).principal.id
        stream, nonce = await self.challenge(node)
        held = Held(call, node)
        try:
            await held.say(Nonce(nonce))
            signed = decode_up(await call.receive() or b"")
            assert isinstance(signed, Signed), signed
            verdict = await self.submit(stream, signed)
            if not verdict.accepted:
                raise Denied(verdict.text, reason=verdict.reason)
            await held.say(AcceptedRegistration(90, verdict.withheld))
            self.tunnels.append(held)
            await self._read(held)
        finally:
            stream.cancel()
            if held in self.tunnels:
                self.tunnels.remove(held)

    async def _read(self, held: Held) -> None:
        while (data := await held.call.receive()) is not None:
            match decode_up(data):
                case Signed() as signed:
                    held.signed.put(signed)
                case OpenRefused() as refused:
                    held.refused.put(refused)
                case Renew():
                    await held.say(Renewed())

    async def _carry(self, call: IRpcCall) -> None:
        uid, secret, _ = decode_carry_open(bytes(parse_frame(await call.receive() or b"")[1]))
        [held] = [each for each in self.tunnels if each.call.peer is call.peer]
        carry = Carry(call)
        held.carried.put((uid, secret, carry))
        await carry.over

    # -- towards people

    async def _open(self, call: IRpcCall) -> None:
        data, signature = decode_open(bytes(parse_frame(await call.receive() or b"")[1]))
        ask = Ask(
            request=data,
            signature=signature,
            person_chain=call.peer.chain[:2],
            proxy_decision=self.decision(source_address=call.peer.host),
        )
        self.asked.append(ask)
        await self.on_open(call, ask)

    async def granted(self, ask: Ask) -> tuple[AuthorizeAnswer, Signed]:
        """Authority's grant for a request; its refusal as SvcError."""
        answer = await self.authorize(ask)
        if answer.grant is None:
            raise Denied(answer.text, reason=answer.reason)
        self.grants.append(answer)
        return answer, answer.grant

    async def carry(self, call: IRpcCall, ask: Ask) -> None:
        """As it should: grant, notice, carry, join."""
        answer, grant = await self.granted(ask)
        carry = await (await self.tunnel()).opened(notice(ask, grant))
        await call.send(open_frame(encode_opened(grant, answer.decision_id)))
        name = f"session {decode_request(ask.request).session_uid}"
        up, down = taps(self.seen, name, lambda data: self.alter(data))
        self.carried = (up, down)
        ended = Deferred.fromCoroutine(speak(carry.call, down))
        try:
            await speak(call, up)
            await ended
        finally:
            ended.addErrback(lambda broken: None)
            carry.end()

    async def relay(self, call: IRpcCall) -> None:
        """As it should: bytes to Authority's join listener."""
        await call.receive()
        up, down = taps(self.seen, "join lane")
        await dialed(reactor, self.stage.address("join")).connect(Factory.forProtocol(lambda: down))
        await call.send(open_frame(b""))
        await speak(call, up)


def notice(ask: Ask, grant: Signed, secret: bytes | None = None) -> OpenNotice:
    """The open notice of a granted request."""
    uid = decode_request(ask.request).session_uid
    key = os.urandom(SECRET_BYTES) if secret is None else secret
    return OpenNotice(
        session_uid=uid,
        grant=grant,
        request=ask.request,
        signature=ask.signature,
        person_chain=ask.person_chain,
        secret=key,
    )
