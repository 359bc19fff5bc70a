"""Opens sessions: signs the request, checks the grant, starts TLS to the Connector it names.

A Proxy is a courier here: it is told what the person signed, and what it
brings back is believed only as far as Authority signed it and it fits the
request (rules R1, R2, R3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from hashlib import sha256
from typing import Any

from attrs import define, field, frozen
from twisted.internet.interfaces import (
    IProtocol,
    IProtocolFactory,
    IReactorTime,
)

from svc.client.lanes import PersonLanes
from svc.errors import Fault, Malformed, SvcError, Unprocessed
from svc.interfaces.identity import IChainVerifier, IIdentity
from svc.interfaces.kinds import IGreetedEndpoint, ServedKind
from svc.interfaces.rpc import IRpcChannel
from svc.messages.gated import decode_answer
from svc.messages.session import (
    OPEN_METHOD,
    WHY_METHOD,
    Explanation,
    decode_grant,
    decode_opened,
    decode_opened_answer,
    encode_open,
    encode_request,
    encode_why_request,
    read_explanation,
    why_message,
)
from svc.model.certificate import CertificateFacts
from svc.model.ids import Entropy, random_id
from svc.model.policy.requested import COMMAND_OPTIONS
from svc.model.principal import Role
from svc.model.session.edits import SESSION_UID, StreamEdits
from svc.model.session.ending import (
    BROKEN,
    CANCELLED,
    NOT_TOLD,
    PROXY_GONE,
    SessionOver,
    known_ending,
)
from svc.model.session.frames import FrameChecker, FrameTagger
from svc.model.session.gated import GatedReceiver
from svc.model.session.grant import Grant
from svc.model.session.halves import OwnHalf, SessionAnswer, new_half
from svc.model.session.request import SessionRequest, WhyRequest
from svc.model.signing import Purpose, Signed, verify
from svc.proto.gate.v1 import session_pb2 as pb
from svc.rpc.endpoint import AwaitedEndpoint, StreamClientEndpoint
from svc.rpc.frames import FrameKind, data_frame, open_frame, parse_frame
from svc.rpc.gated import GatedEnds, TaggedStream
from svc.rpc.tls import HandshakeSource
from svc.runtime.services import bounded
from svc.telemetry.escape import escaped
from svc.tunnel.greeting import Greeting, Keep, nothing_kept
from svc.tunnel.moves import MovingEndpoint
from svc.tunnel.moving import MovingStream
from svc.tunnel.tls_endpoint import SessionTlsEndpoint

_OPEN_SECS = 45.0
"""Authority, the notice and the Connector's dial each have their own, shorter times."""

_WHY_SECS = 15.0
_PROXIES = frozenset({Role.PROXY})
_CONNECTORS = frozenset({Role.CONNECTOR})


@frozen
class SessionIntent:
    """One session a person asks for.

    Attributes:
        parameters: What is asked for beyond the resource, by names of the kind.
    """

    resource: str
    kind: ServedKind
    parameters: Mapping[str, str] = field(factory=dict)


@define
class SessionDialer:
    """Makes the endpoints of sessions, and asks about decisions.

    Attributes:
        channel: The channel to a Proxy now; raises ``Unavailable`` where there is none.
        connector_tls: The client's side of the TLS inside a session, for
            exactly the Connector whose id is given when it shows its certificate.
        handshake_secs: For the TLS inside a session, end to end.
        lanes: Brings opaque sessions into direct lanes; None leaves them in the tunnel.
        keep: Keeps files for tools, by what a Connector says of itself.
        prepare: Called when a request is on its way: the time until its answer is for what the next
            session's TLS can have ready.
        command_options: What the commands that tools are told to type end with, to use this
            identity.
    """

    channel: Callable[[], IRpcChannel]
    identity: IIdentity
    verifier: IChainVerifier
    connector_tls: Callable[[Callable[[], str]], HandshakeSource]
    clock: IReactorTime
    now: Callable[[], float]
    entropy: Entropy
    handshake_secs: float = 10.0
    lanes: PersonLanes | None = None
    prepare: Callable[[], object] = lambda: None
    command_options: str = ""
    keep: Keep = nothing_kept

    def endpoint(self, intent: SessionIntent) -> ClientSession:
        """The byte stream of one new session, as the person's tool sees it; does nothing yet."""
        return ClientSession(self, intent)

    async def why(self, decision_id: str) -> Explanation:
        """The explanation of a decision; the same answer for another person's as for an unknown
        one.

        Raises:
            SvcError: the question was not answered.
        """
        channel = self.channel()
        question = encode_why_request(
            WhyRequest(
                cluster=self.verifier.cluster,
                decision_id=decision_id,
                proxy_id=self.proxy_id(channel),
                issued_at_ms=int(self.now() * 1000),
                certificate_sha256=self.identity.facts.sha256,
            )
        )
        signed = self.identity.sign(Purpose.WHY_REQUEST, question)
        answer = await channel.unary(
            WHY_METHOD,
            why_message(question, signed.signature),
            pb.SessionWhyResponse,
            timeout=_WHY_SECS,
        )
        return read_explanation(answer)

    def proxy_id(self, channel: IRpcChannel) -> str:
        """The node at the other end, from its certificate, verified now (R13)."""
        return self.verifier.verify(channel.peer.chain, _PROXIES).principal.id

    def request(self, intent: SessionIntent, proxy_id: str, half: bytes = b"") -> SessionRequest:
        """What the person signs; with their half of the keys where the session is gated."""
        return SessionRequest(
            cluster=self.verifier.cluster,
            session_uid=random_id(self.entropy),
            resource=intent.resource,
            kind=intent.kind.name,
            action=intent.kind.terms.open_action,
            proxy_id=proxy_id,
            issued_at_ms=int(self.now() * 1000),
            certificate_sha256=self.identity.facts.sha256,
            parameters=intent.parameters,
            half=half,
        )


@define(eq=False)
class ClientSession(AwaitedEndpoint):
    """One session: connect it once.

    That fails with SvcError; a refusal's ``details`` hold ``session_uid``, and ``decision_id`` and
    ``policies`` where they may be known.

    Attributes:
        decision_id: Of the decision that let it open; empty before.
        grant: What Authority granted; None before.
    """

    _dialer: SessionDialer
    intent: SessionIntent
    decision_id: str = field(default="", init=False)
    grant: Grant | None = field(default=None, init=False)
    _channel: IRpcChannel | None = field(default=None, init=False)
    _below: StreamClientEndpoint | None = field(default=None, init=False)
    _call: Any = field(default=None, init=False)
    _hello: bytes = field(default=b"", init=False)
    _session_uid: str = field(default="", init=False)

    def cancel(self) -> None:
        """Ask the target to stop what it does for this session now.

        Only of a session that is open and gated: anything else has no way to be asked.
        """
        transport = None if self._below is None else self._below.transport
        if isinstance(transport, TaggedStream):
            transport.cancel()

    @property
    def greeting(self) -> Greeting | None:
        """What takes the Connector's own line from the session's bytes; None: there is none."""
        local = self.intent.kind.local
        if not IGreetedEndpoint.providedBy(local):
            return None
        return Greeting(
            self.intent.resource,
            local,
            has_one=lambda: self.grant is not None and self.grant.operations is not None,
            keep=self._dialer.keep,
        )

    @property
    def has_said_why(self) -> bool:
        """Whether the last that the tool got are words on the gate's behalf: why it ended."""
        transport = None if self._below is None else self._below.transport
        return isinstance(transport, TaggedStream) and transport.is_last_ours

    def over(self) -> SessionOver:
        """Why it ended, once it has.

        What we found ourselves is told first, then what the Proxy says of it, then what the
        Connector does; both are believed only as far as they are words that we know.
        """
        transport = None if self._below is None else self._below.transport
        in_band = None if transport is None else transport.reported_end
        if transport is not None and transport.fault:
            return self._over(transport.fault)
        reason = self._told_by_proxy()
        if reason == NOT_TOLD and in_band is not None:
            reason = in_band.reason
        return self._over(reason)

    def _over(self, reason: str) -> SessionOver:
        return SessionOver(reason, self.decision_id, self._dialer.command_options)

    def _told_by_proxy(self) -> str:
        """The word of the call's end: the Proxy's status, a lost connection, a fault we found."""
        refusal = None if self._call is None else self._call.outcome
        if refusal is None:
            return NOT_TOLD
        if self._call.refusal is None:
            word = known_ending(refusal.reason)
            # Of a reset without a status: we did not cancel it.
            return NOT_TOLD if word == CANCELLED else word
        return PROXY_GONE if refusal.fault is Fault.UNAVAILABLE else BROKEN

    async def connected(self, factory: IProtocolFactory) -> IProtocol:
        """Ask, check, and connect what the factory builds once the right Connector answered."""
        self._below = StreamClientEndpoint(self._opened)
        endpoint: AwaitedEndpoint = self._below
        if self.intent.kind.opaque:
            dialer = self._dialer
            if dialer.lanes is not None:
                after = dialer.lanes.after
                endpoint = MovingEndpoint(
                    below=endpoint, clock=dialer.clock, after=after, ask=self._carried_enough
                )
            endpoint = SessionTlsEndpoint(
                below=endpoint,
                begin=dialer.connector_tls(self._connector_id).begin,
                clock=dialer.clock,
                seconds=dialer.handshake_secs,
                early=self._begin_with,
            )
        try:
            return await endpoint.connected(factory)
        except Unprocessed:
            raise  # as what it is: it may be asked elsewhere, and nothing was decided
        except SvcError as e:
            raise _with_ids(e, self._session_uid, self.decision_id) from e.__cause__

    async def _opened(self) -> Any:
        """The call to the Proxy, past both opening frames, its grant checked."""
        dialer = self._dialer
        self._channel = channel = dialer.channel()
        half = None if self.intent.kind.opaque else new_half()
        request = dialer.request(
            self.intent, dialer.proxy_id(channel), b"" if half is None else half.public
        )
        self._session_uid = request.session_uid
        self.intent.kind.asked(request)  # or raises what the Proxy would answer
        data = encode_request(request)
        signed = dialer.identity.sign(Purpose.SESSION_REQUEST, data)
        self._call = stream = channel.stream(OPEN_METHOD)
        try:
            await stream.send(open_frame(encode_open(data, signed.signature)))
            hello, self._hello = self._hello, b""
            if hello:
                await stream.send(data_frame(hello))
                dialer.clock.callLater(0, dialer.prepare)  # behind the request
            del hello
            within = partial(bounded, dialer.clock, _OPEN_SECS, what="the Proxy")
            answer = await stream.receive(within)
            first = _opening(answer)
            grant, self.decision_id = decode_opened(first)
            self.grant = check_grant(
                grant, data, request, dialer.identity.facts, dialer.verifier, dialer.now()
            )
            check_ceiling(self.grant, request, self.intent.kind)
            if half is not None:
                self._agree(half, data, decode_opened_answer(first))
        except BaseException:
            stream.cancel()
            raise
        assert self._below is not None
        self._below.open_no_more()
        return stream

    def _agree(self, half: OwnHalf, data: bytes, signed: Signed | None) -> None:
        """Take the keys of the session's frames from what its Connector, and no other, signed."""
        assert self.grant is not None
        assert self._below is not None
        if signed is None:
            raise Malformed("the Proxy opened a gated session without its Connector's answer")
        dialer = self._dialer
        answer = check_answer(signed, data, self.grant, dialer.verifier)
        keys = half.agree(answer.half, data, signed.payload)
        own = {
            COMMAND_OPTIONS: dialer.command_options,
            SESSION_UID: self.grant.session_uid,
        }
        edits = StreamEdits(self.intent.kind.local.edits, own)
        ends = GatedEnds(
            tagger=FrameTagger(keys.requests),
            receiver=GatedReceiver(FrameChecker(keys.answers), edits),
            clock=dialer.clock,
        )
        self._below.make = ends.transport

    def _carried_enough(self, stream: MovingStream) -> None:
        assert self._dialer.lanes is not None
        assert self._channel is not None
        assert self.grant is not None
        self._dialer.lanes.ask(self._channel, self.grant.session_uid, stream)

    def _begin_with(self, hello: bytes) -> None:
        """Send it with the request: the Connector has it when the session opens.

        It says nothing of the person, nothing that comes back is read before the grant
        was checked, and only the grant's Connector is then accepted (R3).
        """
        self._hello = hello

    def _connector_id(self) -> str:
        if self.grant is None:
            raise Malformed("the Proxy sent a certificate before the grant")
        return self.grant.connector_id


def opened_text(session: ClientSession) -> str:
    """The session notice, as one line for a person's terminal (U-PHA-27)."""
    resource = escaped(session.intent.resource)
    return f"svc: {resource}: session open, decision {escaped(session.decision_id)}"


def check_grant(
    signed: Signed,
    data: bytes,
    request: SessionRequest,
    person: CertificateFacts,
    verifier: IChainVerifier,
    now: float,
) -> Grant:
    """The grant, if Authority made it for exactly this request and it opens something now.

    Args:
        data: The request's bytes as they were signed.
        person: Of our certificate.

    Raises:
        SvcError: ``grant_*``; whoever brought it is not to be trusted with the session.
    """
    verifier.verify_signed(signed, Purpose.GRANT)
    grant = decode_grant(signed.payload)
    now_ms = now * 1000
    for word, holds in (
        ("grant_cluster", grant.cluster == verifier.cluster),
        ("grant_session", grant.session_uid == request.session_uid),
        ("grant_request", grant.request_sha256 == sha256(data).digest()),
        ("grant_other_proxy", grant.proxy_id == request.proxy_id),
        ("grant_resource", (grant.resource, grant.kind) == (request.resource, request.kind)),
        ("grant_person", grant.person_id == person.principal.id),
        ("grant_person", grant.person_certificate_sha256 == person.sha256),
        ("grant_too_old", now_ms < min(grant.open_before_ms, grant.end_before_ms)),
        ("grant_times", grant.end_before_ms <= person.not_after * 1000),
    ):
        if not holds:
            raise SvcError(
                "the Proxy sent a grant for another session; nothing was opened",
                reason=word,
                fault=Fault.UNAUTHENTICATED,
            )
    return grant


def check_answer(
    signed: Signed, data: bytes, grant: Grant, verifier: IChainVerifier
) -> SessionAnswer:
    """The Connector's answer, if the grant's Connector made it for exactly this request.

    Args:
        signed: As the Proxy brought it.
        data: The request's bytes as they were signed.
        grant: Of the session, checked.
        verifier: Judges chains against the pinned root.

    Raises:
        SvcError: ``answer_refused``; nothing of the person's was sent.
    """
    node = verifier.verify(signed.chain, _CONNECTORS)
    verify(node.public_key, Purpose.SESSION_ANSWER, signed.payload, signed.signature)
    answer = decode_answer(signed.payload)
    said = (answer.cluster, answer.session_uid, answer.connector_id, answer.request_sha256)
    granted = (grant.cluster, grant.session_uid, grant.connector_id, sha256(data).digest())
    if said != granted or node.principal.id != grant.connector_id:
        raise SvcError(
            "the Proxy brought another Connector's answer, or one for another session; nothing "
            "was opened",
            reason="answer_refused",
            fault=Fault.UNAUTHENTICATED,
        )
    return answer


def check_ceiling(grant: Grant, request: SessionRequest, kind: ServedKind) -> None:
    """Return if the session will be read by no more people, and held to no less, than we know.

    Raises:
        SvcError: ``grant_carriage`` or ``grant_ceiling``; nothing of the person's was sent.
    """
    held = kind.asked(request, ends=grant.operations is not None).ceiling
    asked = {name: value for name, value in request.parameters.items() if name in held}
    for word, holds in (
        ("grant_carriage", grant.is_gated is not kind.opaque),
        ("grant_ceiling", set(grant.ceiling) == set(held)),
        ("grant_ceiling", {**grant.ceiling, **asked} == grant.ceiling),
    ):
        if not holds:
            raise SvcError(
                f"Authority granted the session otherwise than {kind.name} is known here; run the "
                "same version of its plug-in everywhere",
                reason=word,
                fault=Fault.PRECONDITION,
            )


def _opening(answer: bytes | None) -> bytes:
    if answer is None:
        raise Malformed("the Proxy ended the session before it opened")
    kind, payload = parse_frame(answer)
    if kind is not FrameKind.OPEN:
        raise Malformed("the Proxy's first message does not open the session")
    return bytes(payload)


def _with_ids(error: SvcError, session_uid: str, decision_id: str) -> SvcError:
    """The refusal, naming the session, and the decision that had allowed it where there is one."""
    ids = {"decision_id": decision_id} if decision_id else {}
    told = {**ids, **error.details}
    if session_uid:
        told[SESSION_UID] = session_uid  # ours, whatever the Proxy says
    return error if told == error.details else error.with_(**told)
