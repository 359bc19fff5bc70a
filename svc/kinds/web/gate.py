"""At the Proxy: decides each request of a connection, and keeps its answers in their order."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred

from svc.errors import Malformed
from svc.interfaces.gating import IGatedSession, IGatedStream, RequestVerdict
from svc.kinds.web.body import BodyScan
from svc.kinds.web.head import (
    HEAD_END,
    MAX_HEAD,
    BadHead,
    Body,
    HttpRequest,
    read_answer,
    read_request,
)
from svc.kinds.web.terms import ACCESS
from svc.kinds.web.turns import MOST_OWED, Turn, Turns
from svc.kinds.web.websocket import FrameScan, is_opened_by
from svc.kinds.web.words import (
    BAD_ANSWER,
    BETWEEN_POLICIES,
    CLOSES,
    DECISION,
    DENIED,
    DROP,
    ENDED,
    FORM,
    NO_BODY,
    PAGE,
    POLICIES,
    REASON,
    REFUSED,
    TEXT,
    WEBSOCKET,
    YES,
)
from svc.model.policy.access import ContextValue
from svc.model.session.edits import MAX_EDIT_BYTES

Asked = Callable[[HttpRequest], tuple[str, Mapping[str, ContextValue]]]
"""The action that a request is decided by, and its facts; raises BadHead where it has none."""

SWITCHING = 101

MOST_INTERIM = 16
"""Heads of 1xx that a target may send before an answer."""

MOST_TRAILERS = 32
"""Fields that a target may send after an answer in chunks."""

MOST_DROPPED = 16 * 1024 * 1024
"""The longest body of a denied request that is read to its end, so that the connection lives on."""

LINGER = 1024 * 1024
"""What is still read, and dropped, after the last answer, so that it arrives."""


class _Last(Exception):
    """No further request of this connection is read."""


async def serve(session: IGatedSession) -> None:
    """One connection, from its first request to its end."""
    await serve_requests(session, lambda head: (ACCESS, head.facts))


async def serve_requests(session: IGatedSession, asked: Asked) -> None:
    """As :func:`serve`, for a kind whose requests are HTTP and are decided by other words."""
    exchange = Exchange(session, asked)
    try:
        await session.either(exchange.requests(), exchange.answers())
    except CancelledError:
        exchange.say_why()
        raise


@define
class Exchange:
    """The two directions of one connection, and the answers it owes."""

    session: IGatedSession
    asked: Asked
    turns: Turns = field(init=False)
    _interim: int = field(default=0, init=False)
    _has_passed: bool = field(default=False, init=False)
    _is_switched: Deferred[bool] = field(factory=Deferred, init=False)
    _frames: FrameScan | None = field(default=None, init=False)

    @turns.default
    def _ordered(self) -> Turns:
        return Turns(self.session.answers.insert)

    async def requests(self) -> None:
        """From the person: what is denied, or cannot be read, is dropped and answered here."""
        stream = self.session.requests
        try:
            while (raw := await self._head()) is not None:
                await self._request(raw)
        except BadHead as fault:
            self._refuse(fault)
        except _Last:
            pass
        else:
            await self.turns.fewer_than(1)
            return
        await self.turns.fewer_than(1)
        if self.turns.is_worded:
            self.session.answers.close()
        # Else the target says the end of its own answer: the person's program believes no other.
        await _drop(stream, Body(length=LINGER))

    async def answers(self) -> None:
        """From the target, each for the request that it belongs to."""
        stream = self.session.answers
        try:
            while (raw := await _head(stream)) is not None:
                await self._answer(raw)
                if self._frames is not None:
                    await _pass_frames(stream, self._frames)
        except BadHead as fault:
            self._replace(fault)

    async def _head(self) -> bytes | None:
        await self.turns.fewer_than(MOST_OWED)
        return await _head(self.session.requests)

    def say_why(self) -> None:
        """The last word of a session that is broken off, where one can be said."""
        values = {REASON: self.session.ending}
        if self._frames is not None and self._frames.is_between:
            self.session.answers.insert(ENDED, {**values, FORM: WEBSOCKET})
        elif self.turns.is_waiting:
            self.session.answers.insert(ENDED, values)

    async def _request(self, raw: bytes) -> None:
        head = read_request(raw)
        action, facts = self.asked(head)
        if head.upgrades:
            await self.turns.fewer_than(1)
            if self._has_passed:
                raise BadHead("a WebSocket needs a connection of its own", reason="websocket")
        verdict = await self.session.decide(action, facts)
        if not verdict.allowed:
            await self._deny(raw, head, verdict)
            return
        stream = self.session.requests
        over = self.session.watch(action, facts)
        self.turns.owe(Turn(head.method, websocket_key=head.websocket_key, over=over))
        self._has_passed = True
        await stream.pass_on(len(raw))
        if head.upgrades:
            await self._upgrade(stream)
        try:
            await _pass(stream, BodyScan(head.body))
        except Malformed as fault:
            if not self.turns.spoil(_refusal(fault)):
                raise
            raise _Last from fault
        if head.is_last:
            raise _Last

    async def _upgrade(self, stream: IGatedStream) -> None:
        """Until the target has answered nothing passes; where it refuses, nothing ever will."""
        if await self._is_switched:
            await _pass(stream, BodyScan(Body(length=None)))
        raise _Last

    async def _deny(self, raw: bytes, head: HttpRequest, verdict: RequestVerdict) -> None:
        # Whoever waits for 100 may or may not send the body when it gets another answer.
        is_unsure = bool(head.headers.all(b"expect"))
        is_long = (head.body.length or 0) > MOST_DROPPED
        # A denial that nobody recorded is no denial to the Connector: nothing passes after it.
        is_recorded = bool(verdict.basis)
        is_last = head.is_last or is_unsure or is_long or not is_recorded
        self.turns.owe(Turn(head.method, edit=DENIED, values=_denial(head, verdict, is_last)))
        stream = self.session.requests
        stream.edit(len(raw), DROP, {})
        if is_last:
            raise _Last
        await _drop(stream, head.body)

    def _refuse(self, fault: BadHead) -> None:
        self.turns.owe(_refusal(fault))

    async def _answer(self, raw: bytes) -> None:
        stream, turn = self.session.answers, self.turns.current()
        head = read_answer(raw)
        body = head.body_for(turn.method)
        if head.status == SWITCHING and not is_opened_by(head, turn.websocket_key):
            raise BadHead("the target switches to what nobody asked for", reason="switch")
        await stream.pass_on(len(raw))
        if head.is_interim:
            self._interim += 1
            if self._interim > MOST_INTERIM:
                raise Malformed("the target sends too many interim answers")
            return
        self._interim = 0
        if head.status == SWITCHING:
            # Watched until its end: it is the connection's last request.
            self._frames = FrameScan()
            self._is_switched.callback(True)
            return
        await _pass(stream, BodyScan(body, MOST_TRAILERS))
        self.turns.end()
        if turn.websocket_key:
            self._is_switched.callback(False)

    def _replace(self, fault: BadHead) -> None:
        """Word the answer that the target did not, where the person waits for one."""
        self.turns.current()
        values = {REASON: fault.reason, TEXT: fault.text, CLOSES: YES}
        self.session.answers.insert(BAD_ANSWER, values)


async def _head(stream: IGatedStream) -> bytes | None:
    """The next head, or as much of one as shows that it is none."""
    try:
        return await stream.until(HEAD_END, MAX_HEAD)
    except Malformed:
        if len(stream.held) < MAX_HEAD:
            raise
    raise BadHead(f"a head is longer than {MAX_HEAD} bytes", reason="head_too_long")


async def _pass(stream: IGatedStream, scan: BodyScan) -> None:
    while not scan.is_over:
        held = await stream.some()
        if not held:
            return _ended(scan.body, held)
        taken = scan.take(held)
        await stream.pass_on(taken)
    return None


async def _pass_frames(stream: IGatedStream, frames: FrameScan) -> None:
    while held := await stream.some():
        frames.take(held)
        await stream.pass_on(len(held))


async def _drop(stream: IGatedStream, body: Body) -> None:
    scan = BodyScan(body)
    while not scan.is_over:
        held = await stream.some()
        if not held:
            return
        taken = scan.take(held)
        for at in range(0, taken, MAX_EDIT_BYTES):
            stream.edit(min(taken - at, MAX_EDIT_BYTES), DROP, {})


def _ended(body: Body, held: bytes | None) -> None:
    is_amid = body.is_chunked or body.length is not None
    if held is None and is_amid:
        raise Malformed("the stream ended in the middle of a body")


def _refusal(fault: Malformed) -> Turn:
    values = {REASON: fault.reason, TEXT: fault.text, CLOSES: YES}
    return Turn(b"", edit=REFUSED, values=values)


def _denial(head: HttpRequest, verdict: RequestVerdict, is_last: bool) -> dict[str, str]:
    values = {
        DECISION: verdict.decision_id,
        POLICIES: BETWEEN_POLICIES.join(verdict.policies),
        REASON: verdict.reason,
    }
    if head.method == b"HEAD":
        values[FORM] = NO_BODY
    elif head.headers.one(b"sec-fetch-mode").lower() == b"navigate":
        values[FORM] = PAGE
    if is_last:
        values[CLOSES] = YES
    return values
