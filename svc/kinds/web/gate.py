"""At the Proxy: decides each request of a connection, and keeps its answers in their order."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define, field, frozen
from twisted.internet.defer import CancelledError, Deferred

from svc.errors import Malformed, SvcError
from svc.interfaces.gating import IGatedSession, IGatedStream, RequestVerdict
from svc.kinds.web.body import BodyScan
from svc.kinds.web.head import (
    HEAD_END,
    MAX_HEAD,
    SWITCHING,
    BadHead,
    Body,
    HttpRequest,
    read_answer,
)
from svc.kinds.web.identity import named_by
from svc.kinds.web.last_word import EndScan
from svc.kinds.web.reading import MOST_QUESTION, RequestReading
from svc.kinds.web.refusal_page import NAVIGATES
from svc.kinds.web.remembered import RememberedRequests
from svc.kinds.web.switch import switch_of
from svc.kinds.web.terms import ACCESS
from svc.kinds.web.turns import MOST_OWED, Turn, Turns
from svc.kinds.web.words import (
    ANSWERED,
    ANSWERED_HERE,
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
    REQUEST,
    TEXT,
    YES,
)
from svc.model.policy.access import ContextValue
from svc.model.policy.requests import NAMED_PERSON
from svc.model.session.edits import MAX_EDIT_BYTES

MOST_INTERIM = 16
"""Heads of 1xx that a target may send before an answer."""

MOST_TRAILERS = 32
"""Fields that a target may send after an answer in chunks."""

MOST_DROPPED = 16 * 1024 * 1024
"""The longest body of a denied request that is read to its end, so that the connection lives on."""

MOST_WITH_HEAD = 16 * 1024
"""The longest body that passes in one step with its head, where it has come with it."""

LINGER = 1024 * 1024
"""What is still read, and dropped, after the last answer, so that it arrives."""


@frozen
class _Rest:
    """What follows a request's head."""

    body: Body
    upgrades: bool
    is_last: bool


_NOTHING = _Rest(Body(), upgrades=False, is_last=False)


class _Last(Exception):
    """No further request of this connection is read."""


async def serve(session: IGatedSession) -> None:
    """One connection, from its first request to its end."""
    await serve_requests(session, RequestReading(asked=asked))


def asked(head: HttpRequest) -> tuple[str, Mapping[str, ContextValue]]:
    """Action and facts of a request."""
    named = named_by(head.headers)
    return ACCESS, head.facts if named is None else {**head.facts, NAMED_PERSON: named}


async def serve_requests(session: IGatedSession, reading: RequestReading) -> None:
    """As :func:`serve`, for a kind whose requests are HTTP and are read in another way."""
    exchange = Exchange(session, reading)
    try:
        await session.either(exchange.requests(), exchange.answers())
    except CancelledError:
        exchange.say_why()
        raise


@define
class Exchange:
    """The two directions of one connection, and the answers it owes."""

    session: IGatedSession
    reading: RequestReading
    turns: Turns = field(init=False)
    _remembered: RememberedRequests = field(init=False)
    _interim: int = field(default=0, init=False)
    _has_passed: bool = field(default=False, init=False)
    _was_switched: bool | None = field(default=None, init=False)
    """Whether the target has switched to another protocol; None: it was not asked to."""
    _is_switched: Deferred[bool] = field(factory=Deferred, init=False)
    _end: EndScan | None = field(default=None, init=False)

    @turns.default
    def _ordered(self) -> Turns:
        return Turns(self.session.answers.insert)

    @_remembered.default
    def _of_this_connection(self) -> RememberedRequests:
        return RememberedRequests(self.reading)

    async def requests(self) -> None:
        """From the person: what is denied, or cannot be read, is dropped and answered here.

        The end passes once it is read, and waits for no answer: a target that has nothing to say
        for hours would keep the session of somebody who has gone open for so long.
        """
        stream = self.session.requests
        try:
            while (rest := await self._next_request()) is not None:
                if rest is not _NOTHING:
                    await self._pass_rest(rest)
        except BadHead as fault:
            self._refuse(fault)
        except _Last:
            pass
        else:
            stream.close()
            await self.turns.fewer_than(1)
            return
        self.turns.none_follows(self._close_worded)
        if not await stream.some():
            stream.close()
        await self.turns.fewer_than(1)
        await _drop(stream, Body(length=LINGER))

    def _close_worded(self) -> None:
        # Else the target says the end of its own answer: the person's program believes no other.
        if self.turns.is_worded:
            self.session.answers.close()

    async def answers(self) -> None:
        """From the target, each for the request that it belongs to."""
        try:
            while (scan := await self._next_answer()) is not None:
                await self._pass_answer(scan)
        except BadHead as fault:
            self._replace(fault)

    # What reads a head has returned before the rest passes, which may take days: it keeps nothing.

    async def _next_request(self) -> _Rest | None:
        """What follows the head of the next request, which has passed or was answered here."""
        await self.turns.fewer_than(MOST_OWED)
        # What is answered here costs the person nothing: one who does not read is not read either.
        await self.session.answers.room()
        raw = await _head(self.session.requests)
        return None if raw is None else await self._request(raw)

    async def _next_answer(self) -> BodyScan | None:
        """The body of the next answer, whose head has passed, and those of interim answers."""
        while (raw := await _head(self.session.answers)) is not None:
            if (scan := await self._answer(raw)) is not None:
                return scan
        return None

    def say_why(self) -> None:
        """The last word of a session that is broken off, where one can be said."""
        values = {REASON: self.session.ending}
        if self._end is not None and self._end.is_between:
            self.session.answers.insert(ENDED, {**values, FORM: self._end.form})
        elif self.turns.is_waiting:
            self.session.answers.insert(ENDED, values)

    async def _request(self, raw: bytes) -> _Rest:
        asked = self._remembered.read(raw)
        head, action, facts = asked.head, asked.action, asked.facts
        if head.upgrades:
            await self.turns.fewer_than(1)
            if self._has_passed:
                raise BadHead("another protocol needs a connection of its own", reason="upgrade")
        question = self.reading.question(head)
        if question is not None and self._would_allow(action, facts):
            said = question(await self._body(raw, head), self._would_allow)
            if said is not None:
                size, reason = len(raw), ANSWERED_HERE
                refused = await self.session.refuse(action, facts, size=size, reason=reason)
                if refused.is_recorded:
                    await self._answer_here(raw, head, said)
                else:
                    await self._deny(raw, head, refused)
                return _NOTHING
        # The head alone: more of the request may be held by now.
        verdict = await self.session.decide(action, facts, size=len(raw), text=asked.text)
        if not verdict.allowed:
            await self._deny(raw, head, verdict)
            return _NOTHING
        over = self.session.watch(verdict, action, facts)
        self.turns.owe(Turn(head.method, request=head, over=over))
        self._has_passed = True
        await self.session.requests.pass_on(len(raw))
        if head.upgrades or head.is_last or head.body.length != 0:
            return _Rest(head.body, upgrades=head.upgrades, is_last=head.is_last)
        return _NOTHING

    async def _pass_rest(self, rest: _Rest) -> None:
        stream = self.session.requests
        if rest.upgrades:
            await self._upgrade(stream)
        if rest.body.length != 0:
            try:
                await _pass(stream, BodyScan(rest.body))
            except Malformed as fault:
                if not self.turns.spoil(_refusal(fault)):
                    raise
                raise _Last from fault
        if rest.is_last:
            raise _Last

    async def _upgrade(self, stream: IGatedStream) -> None:
        """Until the target has answered nothing passes; where it refuses, nothing ever will."""
        if await self._is_switched:
            await _pass(stream, BodyScan(Body(length=None)))
        raise _Last

    def _would_allow(self, action: str, facts: Mapping[str, ContextValue]) -> bool:
        try:
            return self.session.allows(action, facts)
        except SvcError:
            return False  # nobody can tell now: what is really asked for is denied too

    async def _body(self, raw: bytes, head: HttpRequest) -> bytes:
        """The whole body of a request, which decides who answers it."""
        length = head.body.length
        if length is None or length > MOST_QUESTION or head.headers.all(b"expect"):
            raise BadHead(
                "a question about what is allowed needs a Content-Length, of at most "
                f"{MOST_QUESTION} bytes, and no Expect",
                reason="question",
            )
        found = await self.session.requests.at_least(len(raw) + length)
        return (found or raw)[len(raw) :]

    async def _answer_here(self, raw: bytes, head: HttpRequest, said: Mapping[str, str]) -> None:
        values = {**said, CLOSES: YES} if head.is_last else said
        self.turns.owe(Turn(head.method, edit=ANSWERED, values=values))
        stream = self.session.requests
        stream.edit(len(raw), DROP, {})
        if head.is_last:
            raise _Last
        await _drop(stream, head.body)

    async def _deny(self, raw: bytes, head: HttpRequest, verdict: RequestVerdict) -> None:
        # Whoever waits for 100 may or may not send the body when it gets another answer.
        is_unsure = bool(head.headers.all(b"expect"))
        is_long = (head.body.length or 0) > MOST_DROPPED
        # A denial that nobody recorded is no denial to the Connector: nothing passes after it.
        is_last = head.is_last or is_unsure or is_long or not verdict.is_recorded
        self.turns.owe(Turn(head.method, edit=DENIED, values=_denial(head, verdict, is_last)))
        stream = self.session.requests
        stream.edit(len(raw), DROP, {})
        if is_last:
            raise _Last
        await _drop(stream, head.body)

    def _refuse(self, fault: BadHead) -> None:
        self.turns.owe(_refusal(fault))

    async def _answer(self, raw: bytes) -> BodyScan | None:
        """Pass a head on; None: it is an interim answer's."""
        turn = self.turns.current()
        head = read_answer(raw)
        body = head.body_for(turn.method)
        asked = turn.request
        if asked is None:
            raise Malformed("the target answers what it was not asked")
        if head.status == SWITCHING and not switch_of(asked).is_answered_by(head):
            raise BadHead("the target switches to what nobody asked for", reason="switch")
        stream, size = self.session.answers, len(raw)
        if head.is_interim:
            await stream.pass_on(size)
            self._interim += 1
            if self._interim > MOST_INTERIM:
                raise Malformed("the target sends too many interim answers")
            return None
        self._interim, is_switched = 0, head.status == SWITCHING
        scan = BodyScan(Body(length=None)) if is_switched else BodyScan(body, MOST_TRAILERS)
        self._end = self.reading.end_of(asked, head, None if is_switched else scan)
        if self._end is not None:
            self.turns.lasts()
            self._remembered.forget()
        elif not is_switched and body.length is not None and body.length <= MOST_WITH_HEAD:
            with_head = stream.ahead(size + body.length)
            size += scan.take(with_head[size:])
        await stream.pass_on(size)
        if asked.upgrades:
            self._was_switched = is_switched
        return scan

    async def _pass_answer(self, scan: BodyScan) -> None:
        if self._was_switched:
            self._is_switched.callback(True)
        if not scan.is_over:
            await _pass(self.session.answers, scan, self._end)
        if self._was_switched:
            return  # watched until its end: it is the connection's last request
        self._end = None
        self.turns.end()
        if self._was_switched is False:
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


async def _pass(stream: IGatedStream, scan: BodyScan, end: EndScan | None = None) -> None:
    while not scan.is_over:
        held = await stream.some()
        if not held:
            return _ended(scan.body, held)
        taken = scan.take(held)
        if end is not None:
            end.take(held[:taken])
        await stream.pass_on(taken)
    return None


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
    if verdict.request_hint:
        values[REQUEST] = verdict.request_hint
    if head.method == b"HEAD":
        values[FORM] = NO_BODY
    elif head.headers.one(b"sec-fetch-mode").lower() == NAVIGATES:
        values[FORM] = PAGE
    if is_last:
        values[CLOSES] = YES
    return values
