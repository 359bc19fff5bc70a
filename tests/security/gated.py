"""A gated session whose Proxy a test plays: both ends are the real ones, what is between is not.

The person's program and the Connector speak over memory transports.  Whatever one of them sends
waits at the Proxy, and the test passes it on, alters it, or says something else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.internet.protocol import Factory

from svc.client.sessions import ClientSession, SessionDialer, SessionIntent
from svc.connector.session_events import SessionEnded
from svc.errors import SvcError
from svc.interfaces.rpc import IRpcCall, RpcService, Serve, streaming, unary
from svc.interfaces.transport import OpenOrder
from svc.messages.gated import (
    CheckpointAnswer,
    checkpoint_answer_message,
    decode_checkpoint,
    encode_extension,
    read_checkpoint,
)
from svc.messages.session import decode_open, decode_request, encode_opened
from svc.messages.tunnel import decode_carry_open
from svc.model.policy.requested import COMMAND_OPTIONS
from svc.model.session.checkpoint import GATED_MS, GrantExtension, SessionCheckpoint
from svc.model.session.gated import GateNote
from svc.model.signing import Purpose, Signed
from svc.pki.end_to_end import PersonEnd
from svc.proto.gate.v1 import session_pb2
from svc.rpc.frames import note_part, open_frame, parse_frame
from tests.client.memory import Channel
from tests.connector.ends import Talker
from tests.connector.gateway import Gateway, MemoryKind
from tests.kinds.served import tcp
from tests.rpc.memory import Pair

ALL = 1 << 40
"""An offset that no test reaches."""


def deny(came: bytes, values: Mapping[str, str]) -> bytes:
    """The one edit of both sides."""
    return b"NO\n"


class _GatedKind(MemoryKind):
    """A kind that is gated, with one edit."""

    opaque = False
    edits = {"deny": deny}


def tell(came: bytes, values: Mapping[str, str]) -> bytes:
    """At the person's machine it ends as a command to type would."""
    return f"NO{values[COMMAND_OPTIONS]}\n".encode()


class _Local:
    edits = {"deny": tell}


class _Joint:
    """What a tunnel connects instead of a protocol."""

    transport: Any = None

    def abortConnection(self) -> None:
        """The calls end by themselves."""


class HostileProxy(Gateway):
    """See the module.

    Attributes:
        up: Messages of the person's that wait here.
        down: Of the Connector's.
        checkpoints: What the Connector signed, in order.
        prolongs: Whether Authority's extensions are brought; they are always made.
    """

    def __init__(self) -> None:
        self.up: list[bytes] = []
        self.down: list[bytes] = []
        self.checkpoints: list[SessionCheckpoint] = []
        self.prolongs = True
        self.change_extension: dict[str, Any] = {}
        self.change_answer: Any = lambda answer: answer
        self.change_request: Any = lambda request: request
        self.person_call: Any = None
        self.carry_call: Any = None
        super().__init__()
        self.front = Pair([RpcService("gate.v1.Session", {"Open": streaming(self._open)})])
        self.pairs.append(self.front)
        person = self.cluster.person
        self.dialer = SessionDialer(
            channel=self._channel,
            identity=person,
            verifier=person.verifier,
            connector_tls=PersonEnd(person).begun,
            clock=self.clock,
            now=self.cluster.world.now,
            entropy=self.cluster.world.entropy,
        )
        self.session: ClientSession | None = None
        self.got: list[Any] = []

    def _channel(self) -> Any:
        return Channel(self.front.channel, self.cluster.proxy)

    def _connector_sessions(self) -> Any:
        self.kind = _GatedKind()
        return super()._connector_sessions()

    def methods(self) -> dict[str, Serve]:
        checkpoint = unary(session_pb2.SignedCheckpoint, self._checkpoint)
        return {**super().methods(), "Checkpoint": checkpoint}

    def carry(self) -> Serve:
        return streaming(self._carry)

    async def dial(self) -> Any:
        return self.pairs[0].channel

    def open(self) -> list[Any]:  # type: ignore[override]
        """Open the session; what came of it: a Talker or a Failure."""
        kind: Any = evolve(tcp, opaque=False, local=_Local())
        self.session = self.dialer.endpoint(SessionIntent("db1", kind))
        self.session.connect(Factory.forProtocol(Talker)).addBoth(self.got.append)
        self.turn()
        return self.got

    @property
    def person(self) -> Talker:
        """The person's tool."""
        (talker,) = self.got
        assert isinstance(talker, Talker), talker
        return talker

    @property
    def target_heard(self) -> bytes:
        """What reached the target."""
        return bytes(self.kind.targets[-1].value())

    @property
    def connector_reason(self) -> str:
        """Why the session ended at the Connector; empty while it has not."""
        ended = [one for one in self.sessions if isinstance(one, SessionEnded)]
        return ended[-1].reason if ended else ""

    @property
    def person_reason(self) -> str:
        """Why it ended for the person."""
        assert self.session is not None
        return self.session.over().reason if self.person.lost is not None else ""

    def say(self, data: bytes) -> None:
        """The person's tool writes."""
        self.person.transport.write(data)
        self.turn()

    def answer(self, data: bytes) -> None:
        """The target writes."""
        self.kind.targets[-1].protocol.dataReceived(data)
        self.turn()

    def to_connector(self, *messages: bytes) -> None:
        """Send what a Proxy sends there."""
        self._send(self.carry_call, messages)

    def to_person(self, *messages: bytes) -> None:
        """Likewise."""
        self._send(self.person_call, messages)

    def note(self, note: GateNote, message: bytes = b"") -> bytes:
        """A Proxy's note, with a frame."""
        return note_part(note) + message

    def pass_all(self) -> None:
        """As an honest Proxy whose gate passes everything."""
        for waiting, send in ((self.up, self.to_connector), (self.down, self.to_person)):
            for message in waiting:
                send(self.note(GateNote(ALL), message))
            waiting.clear()

    def _send(self, call: Any, messages: tuple[bytes, ...]) -> None:
        for message in messages:
            Deferred.fromCoroutine(call.send(message)).addErrback(lambda _: None)
        self.turn()

    async def _open(self, call: IRpcCall) -> None:
        data, signature = decode_open(bytes(parse_frame(await call.receive() or b"")[1]))
        data = self.change_request(data)
        request = decode_request(data)
        uid = request.session_uid
        grant = self.cluster.grant(data, session_uid=uid, is_gated=True)
        grant = evolve(grant, end_before_ms=grant.issued_at_ms + GATED_MS)
        self.grant = self.cluster.sign_grant(grant)
        order = OpenOrder(
            session_uid=uid,
            grant=self.grant,
            request=data,
            signature=signature,
            person_chain=self.cluster.person.chain,
        )
        self.person_call = call
        factory = Factory()
        factory.buildProtocol = lambda _: _Joint()  # type: ignore
        tunnel: Any = self.routes.find("db1")
        await tunnel.endpoint(order).connect(factory)
        await self._read(call, self.up)

    async def _carry(self, call: IRpcCall) -> None:
        first = bytes(parse_frame(await call.receive() or b"")[1])
        uid, secret, answer = decode_carry_open(first)
        self.carry_call = call
        answer = self.change_answer(answer)
        await self.person_call.send(open_frame(encode_opened(self.grant, "d" * 32, answer)))
        tunnel: Any = self.routes.tunnel_on(call.peer)
        reading = Deferred.fromCoroutine(self._read(call, self.down))
        await tunnel.carry(uid, secret, lambda _: reading)

    async def _read(self, call: Any, into: Any) -> None:
        if not isinstance(into, list):
            await super()._read(call, into)
            return
        try:
            while (message := await call.receive()) is not None:
                into.append(message)
        except SvcError:
            return

    async def _checkpoint(
        self, message: session_pb2.SignedCheckpoint, call: IRpcCall
    ) -> session_pb2.CheckpointAnswer:
        one = decode_checkpoint(read_checkpoint(message).payload)
        self.checkpoints.append(one)
        extension = GrantExtension(
            cluster=one.cluster,
            session_uid=one.session_uid,
            n=one.n,
            end_before_ms=int(self.cluster.world.now() * 1000) + GATED_MS,
            policy_version=3,
        )
        signer = self.cluster.world.keys.signer(Purpose.GRANT_EXTENSION)
        signed: Signed = signer(encode_extension(evolve(extension, **self.change_extension)))
        if not self.prolongs:
            return checkpoint_answer_message(CheckpointAnswer(reason="held_back"))
        return checkpoint_answer_message(CheckpointAnswer(signed))
