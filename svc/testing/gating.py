"""A gate at work in memory: a person on one side, a target on the other, a policy between.

What stands between them is what a Proxy has: the streams, the session's side and the records
are the real ones, and both ends make the edits that the kind's own sides make.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from itertools import count
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

from svc.audit.log.record import Sealer
from svc.audit.spool.entry.forms import seal_request
from svc.errors import Denied, SvcError
from svc.interfaces.kinds import ServedKind, request_reader
from svc.model.audit.decision_ids import DecisionIds
from svc.model.audit.record import AuditRecord
from svc.model.policy.access import AccessRequest, ContextValue, Decision
from svc.model.session.edits import StreamEdits
from svc.model.session.frames import MAX_FRAME_DATA, FrameChecker, FrameTagger, read_tagged
from svc.model.session.gated import GatedReceiver, GateNote
from svc.model.session.ranges import RequestChain
from svc.model.session.reasons import WORDS
from svc.model.session.request import SessionRequest
from svc.policy.kind_terms import kind_terms
from svc.policy.vocabulary import vocabulary
from svc.proxy.sessions.gate import Gate
from svc.proxy.sessions.gated import GatedNote, GatedOpen, Recordable
from svc.proxy.sessions.gated_stream import GatedStream
from svc.proxy.sessions.recording import as_record

Allows = Callable[[str, Mapping[str, ContextValue]], bool]
"""``allows(action, context)``: stands for the policy."""


@define
class _FarEnd:
    """Where one direction leads: frames are verified there, and edited as the Proxy says."""

    receiver: GatedReceiver
    heard: bytearray = field(factory=bytearray)
    is_over: bool = False

    def note(self, note: GateNote, message: bytes | None = None) -> None:
        self.receiver.note(note)
        if message is None:
            self.heard += self.receiver.released()
            self.is_over = self.is_over or note.closes
        else:
            self.pass_on(message)

    def pass_on(self, message: bytes) -> None:
        self.receiver.frame(read_tagged(message))
        self.heard += self.receiver.released()
        if self.receiver.has_ended:
            self.receiver.end()
            self.is_over = True


async def _inline(work: str, data: bytes, _person: str) -> bytes:
    """Do a gate's work here: a played session has no process of its own."""
    module, _, name = work.partition(":")
    answer: bytes = getattr(import_module(module), name)(data)
    return answer


class PlayedSession:
    """One session of a gated kind.

    Args:
        kind: With all its sides, as :func:`svc.compose.drop_ins.load_kinds` gives it.
        allows: Stands for the policy.
        parameters: What the person asks for.

    Attributes:
        records: What was recorded, in order; each could be sealed.
        requestable: Policies that people may ask for; the one that decides is ``played``.
        exact: Texts of denied requests that can be asked for exactly, in order.
        failure: Why the gate broke the session off; None while it did not.
        version: Of the policy; a test that changes it says so.
        unrecordable: Why nothing can be recorded; None while it can.
    """

    def __init__(
        self, kind: ServedKind, allows: Allows, parameters: Mapping[str, str] | None = None
    ) -> None:
        assert kind.gate is not None, "a kind without a gate has no requests"
        self.version = self.revision = 1
        self.requestable: frozenset[str] = frozenset()
        self.records: list[AuditRecord] = []
        self.exact: list[bytes] = []
        self.failure: Failure | None = None
        self.unrecordable: SvcError | None = None
        self.is_over = False
        self._allows = allows
        self._words = vocabulary(kind_terms(kind.terms))
        self._sealer = Sealer(bytes, {fact.name: fact for fact in self._words.terms.facts})
        ids = count(1)
        engine: Any = self
        gate = Gate(
            engine=lambda: engine,
            kinds={kind.name: kind},
            now=lambda: 1.0,
            entropy=lambda size: next(ids).to_bytes(size, "big"),
            on_decision=lambda counted, word: None,
            apart=_inline,
            request_ids=DecisionIds("p" * 26, lambda: 1.0, lambda size: next(ids).to_bytes(size)),
        )
        request = _request(kind, parameters or {})
        opened = GatedOpen(request, kind, person_id="a" * 26, source_address="192.0.2.1")
        self.session = gate.session(
            opened,
            kind.asked(request).ceiling,
            self._write,
            keep=lambda decision, action, text: self.exact.append(text),
        )
        self._requests, self._answers = FrameTagger(bytes(32)), FrameTagger(bytes(32))
        chain = RequestChain(request.session_uid, request_reader(kind.dialer))
        self._target = self._connected(self.session.requests, kind.dialer, chain)
        self._person = self._connected(self.session.answers, kind.local, None)
        gating: Any = kind.gate(self.session)
        self._serving: Deferred[None] = Deferred.fromCoroutine(gating)
        self._serving.addCallbacks(self._served, self._broken)

    @property
    def mark(self) -> int:
        """Of the engine: each version is one."""
        return self.version

    def policy_changes(self, allows: Allows) -> None:
        """Another policy is in force: it breaks off what it does not allow."""
        self._allows = allows
        try:
            self.session.watched.check()
        except Denied as refusal:
            self.session.ending = refusal.reason
            self._serving.cancel()

    def person_says(self, data: bytes) -> None:
        """Bytes from the person's tool."""
        _send(self.session.requests, self._requests, data)

    def person_reads(self, does: bool) -> None:
        """Whether the person's tool takes what it is sent; it does from the beginning on."""
        if does:
            self.session.answers.resumeProducing()
        else:
            self.session.answers.pauseProducing()

    def target_says(self, data: bytes) -> None:
        """Bytes from the target."""
        _send(self.session.answers, self._answers, data)

    def person_ends(self) -> None:
        """The person's tool writes no more."""
        _end(self.session.requests, self._requests)

    def target_ends(self) -> None:
        """The target writes no more."""
        _end(self.session.answers, self._answers)

    @property
    def is_answered(self) -> bool:
        """Whether the person heard the target's own end of answers."""
        return self._person.receiver.is_whole

    @property
    def is_asked_no_more(self) -> bool:
        """Whether the target heard the person's own end of requests."""
        return self._target.receiver.is_whole

    @property
    def target_heard(self) -> bytes:
        """What reached the target, with the dialer's edits made."""
        return bytes(self._target.heard)

    @property
    def person_heard(self) -> bytes:
        """What reached the person's tool, with the local side's edits made."""
        return bytes(self._person.heard)

    def decide(self, request: AccessRequest) -> Decision:
        """As the policy in force would; a fact of another name or type is an error there too."""
        refusal = self._words.refusal(request)
        is_allowed = refusal is None and self._allows(request.action, request.context)
        return Decision(
            allowed=is_allowed,
            decision="error" if refusal else "allow" if is_allowed else "deny",
            policies=() if refusal else ("played",),
            errors=(refusal,) if refusal else (),
            policy_version=1,
            entities_digest="0" * 64,
            request=request,
        )

    def person_named(self, name: str) -> None:
        """Nobody else is there: a request in another one's name is denied."""

    def _connected(self, stream: Any, side: Any, chain: RequestChain | None) -> _FarEnd:
        end = _FarEnd(GatedReceiver(FrameChecker(bytes(32)), StreamEdits(side.edits), chain))
        stream.makeConnection(StringTransport())
        stream.out = end
        return end

    async def _write(self, decided: Recordable, uid: str) -> None:
        if self.unrecordable is not None:
            raise self.unrecordable
        record = as_record(
            decided, origin="p" * 26, session_uid=uid, now=1.0, entropy=self.session.entropy
        )
        if isinstance(decided, GatedNote):
            self._sealer.seal(record)
        else:
            known = self.session.opened.kind.terms.reasons
            assert not record.reason or record.reason in {*WORDS, *known}, (
                f"the kind's terms have no words for the reason {record.reason}"
            )
            seal_request(decided, bytes, self._sealer.facts)
        self.records.append(record)

    def _served(self, _: object) -> None:
        self.is_over = True

    def _broken(self, failure: Failure) -> None:
        self.failure, self.is_over = failure, True


def _send(stream: GatedStream, tagger: FrameTagger, data: bytes) -> None:
    for start in range(0, len(data), MAX_FRAME_DATA):
        message = b"".join(tagger.data(data[start : start + MAX_FRAME_DATA]))
        stream.frame_received(read_tagged(message), message)


def _end(stream: GatedStream, tagger: FrameTagger) -> None:
    message = b"".join(tagger.eof())
    stream.frame_received(read_tagged(message), message)


def _request(kind: ServedKind, parameters: Mapping[str, str]) -> SessionRequest:
    return SessionRequest(
        cluster="test.example",
        session_uid="1" * 32,
        resource="target1",
        kind=kind.name,
        action=kind.terms.open_action,
        proxy_id="p" * 26,
        issued_at_ms=1000,
        certificate_sha256=bytes(32),
        parameters=dict(parameters),
        half=bytes(32),
    )
