"""A Proxy in memory for the person's side, and endpoints that no socket is behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import evolve
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IProtocolFactory

from svc.client.sessions import SessionDialer
from svc.errors import SvcError
from svc.interfaces.rpc import IRpcCall, Peer, RpcService, streaming, unary
from svc.messages.session import (
    Explanation,
    decode_open,
    decode_request,
    decode_why_request,
    encode_opened,
    explanation_message,
    read_why,
)
from svc.model.session.request import SessionRequest, WhyRequest
from svc.model.signing import Purpose, Signed, verify
from svc.pki.end_to_end import ConnectorEnd, PersonEnd
from svc.pki.identity import TransportIdentity
from svc.proto.gate.v1 import session_pb2 as pb
from svc.rpc.frames import open_frame, parse_frame
from svc.rpc.stream import StreamTransport
from svc.tunnel.tls import SessionTls
from tests.connector.ends import EndTransport, Talker
from tests.connector.pieces import Cluster
from tests.rpc.memory import Pair

DECISION = "d0" * 16


class Channel:
    """A memory channel that shows the certificate a TLS one would."""

    def __init__(self, inner: Any, identity: TransportIdentity) -> None:
        self._inner = inner
        self.peer = Peer("proxy", 443, tls=True, chain=identity.chain)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class Gate:
    """A Proxy under the test's control, with the Connector's end of each session behind it.

    Attributes:
        change: Fields of the grant to alter (it is then signed all the same).
        sign: Signs what ``change`` made; another cluster's to be refused.
        refuse: Raised instead of opening.
        answering: Whose certificate the Connector's end shows.
        asked: The calls that a silent one leaves unanswered.
    """

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.requests: list[SessionRequest] = []
        self.questions: list[WhyRequest] = []
        self.far: list[Talker] = []
        self.ends: list[Any] = []
        self.change: dict[str, Any] = {}
        self.sign: Callable[[Any], Signed] = self.cluster.sign_grant
        self.refuse: SvcError | None = None
        self.answering = self.cluster.connector
        self.silent = False
        self.asked: list[Any] = []
        self.raw_answer: bytes | None = None
        methods = {"Open": streaming(self._open), "Why": unary(pb.SessionWhyRequest, self._why)}
        self.pair = Pair([RpcService("gate.v1.Session", methods)])
        self.clock = self.cluster.world.clock = self.pair.clock
        self.channel: Any = Channel(self.pair.channel, self.cluster.proxy)
        person = self.cluster.person
        self.dialer = SessionDialer(
            channel=lambda: self.channel,
            identity=person,
            verifier=person.verifier,
            connector_tls=PersonEnd(person).begun,
            clock=self.clock,
            now=self.cluster.world.now,
            entropy=self.cluster.world.entropy,
        )

    def turn(self) -> None:
        self.pair.turn(60)

    async def _open(self, call: IRpcCall) -> None:
        data, signature = decode_open(bytes(parse_frame(await call.receive() or b"")[1]))
        person = self.cluster.person.facts
        verify(person.public_key, Purpose.SESSION_REQUEST, data, signature)
        request = decode_request(data)
        self.requests.append(request)
        if self.refuse is not None:
            raise self.refuse
        if self.silent:
            self.asked.append(call)
            await Deferred()
        grant = self.cluster.grant(data, session_uid=request.session_uid)
        answer = encode_opened(self.sign(evolve(grant, **self.change)), DECISION)
        await call.send(self.raw_answer or open_frame(answer))
        self.far.append(Talker())
        begin = ConnectorEnd(self.answering).session(person.sha256).begin
        transport = StreamTransport(call)  # type: ignore[arg-type]
        tls = SessionTls(begin, self.far[-1])
        tls.secured.addErrback(lambda _: None)
        transport.start(tls)
        transport.closed.addBoth(self.ends.append)
        await transport.closed

    async def _why(self, request: pb.SessionWhyRequest, call: IRpcCall) -> pb.SessionWhyResponse:
        data, signature, _ = read_why(request)
        verify(self.cluster.person.facts.public_key, Purpose.WHY_REQUEST, data, signature)
        self.questions.append(decode_why_request(data))
        return explanation_message(
            Explanation(
                decision_id=self.questions[-1].decision_id,
                explained=True,
                decision="deny",
                reason="denied",
                policies=("p1",),
            )
        )


class LocalTransport(EndTransport):
    """A local connection as a listener sees it."""

    def __init__(self, protocol: Any, address: str = "127.64.1.1", port: int = 10022) -> None:
        EndTransport.__init__(self, protocol)
        self._here = IPv4Address("TCP", address, port)
        self._there = IPv4Address("TCP", "127.0.0.1", 40000)

    def getHost(self) -> IPv4Address:
        return self._here

    def getPeer(self) -> IPv4Address:
        return self._there


class Listening:
    """Everything that listens, by address; nothing is bound."""

    def __init__(self) -> None:
        self.factories: dict[Any, IProtocolFactory] = {}
        self.busy: dict[Any, OSError] = {}

    def tcp(self, address: str, port: int) -> Any:
        return _Endpoint(self, (address, port))

    def unix(self, path: str) -> Any:
        return _Endpoint(self, path)

    def connect(self, key: Any) -> LocalTransport:
        """A local program connects."""
        protocol: Any = self.factories[key].buildProtocol(None)  # type: ignore[arg-type]
        address, port = key if isinstance(key, tuple) else ("", 0)
        transport = LocalTransport(protocol, address, port)
        protocol.makeConnection(transport)
        return transport


class _Endpoint:
    def __init__(self, owner: Listening, key: Any) -> None:
        self._owner = owner
        self._key = key

    def listen(self, factory: IProtocolFactory) -> Deferred[Any]:
        if self._key in self._owner.busy:
            return fail(CannotListenError(None, 0, self._owner.busy[self._key]))
        self._owner.factories[self._key] = factory
        return succeed(self)

    def stopListening(self) -> Deferred[None]:
        del self._owner.factories[self._key]
        return succeed(None)
