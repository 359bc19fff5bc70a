"""At the Proxy: reads one PostgreSQL session, decides each statement, lets the server refuse.

A denied text is never passed.  An unparsable word goes in its place (the Connector puts it
there), so the server itself fails the request, aborts the transaction and skips to Sync as it
does for any error; the one error that names the word becomes the reason (at the person's end).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from attrs import define, evolve, field
from twisted.internet.defer import Deferred

from svc.errors import Malformed, SvcError
from svc.interfaces.gating import IGatedSession, IGatedStream, RequestVerdict
from svc.kinds.postgres.answers import pass_answers
from svc.kinds.postgres.effects import LONGEST, TextEffects, union
from svc.kinds.postgres.held import drop, first_of, names, whole
from svc.kinds.postgres.long_texts import effects_of
from svc.kinds.postgres.messages import (
    DECIDED,
    EXECUTES,
    HEAD,
    LONG,
    LONGEST_NAMES,
    LONGEST_TEXT,
    check_length,
    ends_transaction,
    head_at,
    name_at,
    size_of,
    text_at,
)
from svc.kinds.postgres.pipeline import MOST_OWED, Decided, Pipeline
from svc.kinds.postgres.terms import OPAQUE, PASSED_OVER, QUERY, UNPREPARED
from svc.kinds.postgres.walk import text_effects
from svc.model.session.ending import NOT_RECORDED

PASSES = RequestVerdict(allowed=True, decision_id="")
"""Of what is never denied: the end of a transaction."""

FUNCTION_CALL = TextEffects(effects=frozenset({"call"}), incomplete="function_call")
UNKNOWN_PORTAL = TextEffects(effects=frozenset({"read"}), incomplete="unknown_portal")
UNKNOWN_STATEMENT = TextEffects(effects=frozenset({"read"}), incomplete=UNPREPARED)
SKIPPED = TextEffects(incomplete=PASSED_OVER)
LONG_TEXT = TextEffects(incomplete="text_too_long")

_AHEAD = 4096
"""So much of what is held is looked at in one step."""


async def serve(session: IGatedSession) -> None:
    """One session, from the server's greeting to its end.

    Whoever has gone away waits for no answer: the server may take hours for one, and would
    notice nothing before it.  No client of PostgreSQL ends one direction and reads the other.
    """
    gate = PostgresGate(session)

    async def requests() -> None:
        await gate.requests()
        session.answers.give_up()

    await session.both(requests(), gate.answers())


@define(eq=False)
class PostgresGate:
    """The gate of one session."""

    session: IGatedSession
    pipeline: Pipeline = field(factory=Pipeline)
    _fresh: tuple[bytes, TextEffects, RequestVerdict] | None = None
    _room: Deferred[None] | None = None
    _is_over: bool = False

    # -- requests

    async def requests(self) -> None:
        """From the person."""
        stream = self.session.requests
        while await stream.at_least(HEAD) is not None:
            if self.pipeline.is_full:
                await self._until_room()
            head = stream.ahead(_AHEAD)
            if not self.pipeline.is_skipping and head[0] in _PERHAPS_UNDECIDED:
                undecided = self._undecided(head)
                if undecided:
                    await stream.pass_on(undecided)
                    continue
            size = size_of(head)
            take = _REQUESTS.get(head[0])
            if take is None and head[0] not in _CARRIED:
                raise Malformed("a request that the PostgreSQL protocol does not have")
            if self.pipeline.is_skipping and head[0] in DECIDED:
                await self._refuse(stream, size, SKIPPED)
                await drop(stream, size)  # the server would only read past it
            elif take is None or (self.pipeline.is_skipping and head[0] not in b"SX"):
                if head[0] == _SYNC:
                    self.pipeline.synced()
                await stream.pass_on(size)  # the server reads past it
            else:
                await take(self, stream, size, head)

    def _undecided(self, held: bytes, at: int = 0) -> int:
        """Where the messages end that need no decision, the first of which begins at *at*.

        They are noted.  Nothing is waited for here, so what a client has sent at once passes at
        once.
        """
        pipeline, end = self.pipeline, len(held)
        while end - at >= HEAD and len(pipeline.owed) < MOST_OWED:
            kind, length = head_at(held, at)
            if length < 4:
                check_length(length)
            note = _CARRIED.get(kind)
            if note is not None:
                note(pipeline)
            elif kind != _EXECUTE or not self._goes_on(held, at, length + 1):
                break
            at += length + 1  # the rest of one that has not come whole is passed as it comes
        return at

    def _goes_on(self, held: bytes, at: int, size: int) -> bool:
        """Whether an Execute is the first of a portal whose verdict stands: one request with it."""
        if size > LONGEST_NAMES or len(held) - at < size:
            return False
        name, _ = name_at(held[at + HEAD : at + size])
        portal = self.pipeline.portal(name)
        if portal is None or portal.fresh is None or not self._stands(portal.fresh):
            return False
        portal.fresh = None
        self.pipeline.executed(portal.candidates)
        return True

    def _stands(self, fresh: RequestVerdict) -> bool:
        return fresh is PASSES or self.session.stands(fresh)

    async def _until_room(self) -> None:
        """Read no further while the server owes as much as we keep."""
        while self.pipeline.is_full and not self._is_over:
            self._room = Deferred()
            await self._room

    def _make_room(self) -> None:
        if self._room is not None and (self._is_over or not self.pipeline.is_full):
            room, self._room = self._room, None
            room.callback(None)

    def _decide(
        self,
        stream: IGatedStream,
        size: int,
        effects: TextEffects,
        head: bytes = b"",
        text: bytes = b"",
    ) -> Awaitable[RequestVerdict]:
        action = OPAQUE if effects.incomplete else QUERY
        if size <= len(head):
            return self.session.decide(action, effects.facts, size, text)
        return self._decide_held(stream, size, action, effects.facts, text)

    async def _decide_held(
        self,
        stream: IGatedStream,
        size: int,
        action: str,
        facts: Mapping[str, frozenset[str]],
        text: bytes,
    ) -> RequestVerdict:
        """Once all of it that the decision is about is held."""
        return await self.session.decide(action, facts, await first_of(stream, size), text)

    async def _refuse(self, stream: IGatedStream, size: int, effects: TextEffects) -> None:
        """Record a message that never reaches the server: no edit is made without a denial."""
        self._fresh = None
        first = await first_of(stream, size)
        _check_recorded(await self.session.refuse(OPAQUE, effects.facts, first, effects.incomplete))

    async def _deny(
        self, stream: IGatedStream, size: int, denial: Decided, *, simply: bool
    ) -> None:
        _check_recorded(denial.verdict)
        first = await first_of(stream, size)
        if self.pipeline.is_skipping:  # since it was decided
            await drop(stream, size)
            return
        self.pipeline.denied(denial, simply=simply)
        stream.edit(first, "deny", {"decision": denial.verdict.decision_id})
        await drop(stream, size - first)

    async def _text(self, stream: IGatedStream, size: int, head: bytes) -> bytes | None:
        """The body of a message that holds a text; None: it is too long to be read."""
        if size > LONGEST_TEXT:
            return None
        return (head if size <= len(head) else await whole(stream, size))[HEAD:size]

    async def _query(self, stream: IGatedStream, size: int, head: bytes) -> None:
        if size <= min(len(head), LONGEST):
            # As below, without a step of its own for each: most texts are short and are all here.
            text = _ended(head[HEAD:size])
            effects = text_effects(text)
        else:
            body = await self._text(stream, size, head)
            text = b"" if body is None else _ended(body)
            effects = LONG_TEXT if body is None else await effects_of(self.session, text)
        # An EXECUTE does not show what it runs, so its text is not what somebody could approve.
        exact, no_text = (b"", EXECUTES) if effects.executes else (text, LONG)
        effects = resolved(self.pipeline, effects)
        if ends_transaction(text) and effects.ends_transaction:
            verdict = PASSES
        else:
            verdict = await self._decide(stream, size, effects, head, exact)
        await self._ask_simply(stream, size, Decided(verdict, effects, no_text))

    async def _call(self, stream: IGatedStream, size: int, head: bytes) -> None:
        verdict = await self._decide(stream, size, FUNCTION_CALL, head)
        await self._ask_simply(stream, size, Decided(verdict, FUNCTION_CALL))

    async def _ask_simply(self, stream: IGatedStream, size: int, answer: Decided) -> None:
        if not answer.verdict.allowed:
            await self._deny(stream, size, answer, simply=True)
        else:
            if not self.pipeline.is_skipping:  # since it was decided: the server reads past it
                self.pipeline.asked_simply(answer.effects.changes)
            await stream.pass_on(size)

    async def _parse(self, stream: IGatedStream, size: int, head: bytes) -> None:
        self._fresh = None
        body = await self._text(stream, size, head)
        if body is None:
            body, text, effects = await names(stream, size, head), b"", LONG_TEXT
            name, _ = name_at(body)
        else:
            name, after = name_at(body)
            text, _ = text_at(body, after)
            effects = await effects_of(self.session, text)
        asked = resolved(self.pipeline, effects)
        if ends_transaction(text) and effects.ends_transaction:
            verdict = PASSES
        else:
            verdict = await self._decide(stream, size, asked, head)

        def note() -> None:
            self.pipeline.parsed(name, effects)
            self._fresh = (name, effects, verdict)

        await self._pass(stream, size, head, Decided(verdict, asked), note)

    async def _bind(self, stream: IGatedStream, size: int, head: bytes) -> None:
        if size <= min(len(head), LONGEST_NAMES):
            body = head[HEAD:size]
        else:
            body = await names(stream, size, head)
        portal, after = name_at(body)
        statement, _ = name_at(body, after)
        effects = self.pipeline.behind(statement)
        fresh, self._fresh = self._fresh, None
        if not effects:
            await self._refuse(stream, size, UNKNOWN_STATEMENT)
            if self.pipeline.is_skipping:  # since it was refused
                await drop(stream, size)
                return
            first = min(size, HEAD + LONGEST_NAMES)
            self.pipeline.bound_to_nothing()
            stream.edit(first, "unknown", {})
            await drop(stream, size - first)
            return
        if fresh is None and len(effects) == 1 and not effects[0].executes:
            # As below, without a step of its own for each of its parts: most Binds are such.
            verdict = await self._decide(stream, size, effects[0], head)
            if verdict.allowed:
                if not self.pipeline.is_skipping:  # since it was decided
                    self.pipeline.bound(portal, effects, verdict)
                    if size < len(head):
                        size = self._undecided(head, size)
                await stream.pass_on(size)
            else:
                await self._deny(stream, size, Decided(verdict, effects[0]), simply=False)
            return
        is_its = fresh is not None and (statement, effects) == (fresh[0], (fresh[1],))
        answer = await self._decide_again(
            stream, size, effects, fresh[2] if fresh and is_its else None, head
        )
        await self._pass(
            stream, size, head, answer, lambda: self.pipeline.bound(portal, effects, answer.verdict)
        )

    async def _execute(self, stream: IGatedStream, size: int, head: bytes) -> None:
        name, _ = name_at(await names(stream, size, head))
        portal = self.pipeline.portal(name)
        candidates: tuple[TextEffects, ...] = ()
        if portal is None:
            verdict = await self._decide(stream, size, UNKNOWN_PORTAL, head)
            answer = Decided(verdict, UNKNOWN_PORTAL)
        else:
            candidates, fresh, portal.fresh = portal.candidates, portal.fresh, None
            answer = await self._decide_again(stream, size, candidates, fresh, head)
        await self._pass(stream, size, head, answer, lambda: self.pipeline.executed(candidates))

    async def _decide_again(
        self,
        stream: IGatedStream,
        size: int,
        candidates: tuple[TextEffects, ...],
        fresh: RequestVerdict | None,
        head: bytes,
    ) -> Decided:
        """The verdict of the message before, where it stands: both are one request."""
        if fresh is not None and self._stands(fresh):
            return Decided(fresh, candidates[0])
        effects = resolved(self.pipeline, candidates[0])
        if len(candidates) > 1:
            others = [resolved(self.pipeline, one) for one in candidates[1:]]
            effects = union((effects, *others))
        return Decided(await self._decide(stream, size, effects, head), effects)

    async def _pass(
        self,
        stream: IGatedStream,
        size: int,
        head: bytes,
        answer: Decided,
        note: Callable[[], object],
    ) -> None:
        """Pass a message of the extended protocol, and what needs no decision after it; or deny."""
        if not answer.verdict.allowed:
            await self._deny(stream, size, answer, simply=False)
            return
        if not self.pipeline.is_skipping:  # since it was decided: the server reads past it
            note()
            if size < len(head):
                size = self._undecided(head, size)
        await stream.pass_on(size)

    async def _close(self, stream: IGatedStream, size: int, head: bytes) -> None:
        body = await names(stream, size, head)
        name, _ = name_at(body, 1)
        if not self.pipeline.is_skipping:  # since its beginning came: the server reads past it
            self.pipeline.closed(name if body[:1] == b"S" else None)
        await stream.pass_on(size)

    # -- answers

    async def answers(self) -> None:
        """From the server."""
        try:
            await pass_answers(self.session.answers, self.pipeline, self._make_room)
        finally:
            self._is_over = True
            self._make_room()


def _check_recorded(verdict: RequestVerdict) -> None:
    """Return where a denial is on record.

    Raises:
        SvcError: it is not: it may make no edit, and so ends the session (ADR 35).
    """
    if not verdict.is_recorded:
        raise SvcError(f"no record of a statement: {verdict.reason}", reason=NOT_RECORDED)


def resolved(pipeline: Pipeline, effects: TextEffects) -> TextEffects:
    """A text's effects, with those of the prepared statements that its EXECUTEs may run."""
    if not effects.executes:
        return effects
    found = [effects]
    for name in sorted(effects.executes):
        candidates = [*pipeline.behind(name)]
        candidates += [
            one.effects for one in effects.changes if one.name == name and one.effects is not None
        ]
        if not candidates:
            return evolve(effects, incomplete=UNPREPARED)
        if any(one.executes or one.changes for one in candidates):
            return evolve(effects, incomplete="sql_execute")  # of what runs others in its turn
        found += candidates
    return union(tuple(found))


def _ended(body: bytes) -> bytes:
    """The text of a Query, without its end; one with a NUL in it is refused further on."""
    if body[-1:] != b"\0":
        raise Malformed("a text in the PostgreSQL protocol has no end")
    return body[:-1]


Take = Callable[[PostgresGate, IGatedStream, int, bytes], Awaitable[None]]

_REQUESTS: Mapping[int, Take] = {
    ord("Q"): PostgresGate._query,
    ord("F"): PostgresGate._call,
    ord("P"): PostgresGate._parse,
    ord("B"): PostgresGate._bind,
    ord("E"): PostgresGate._execute,
    ord("C"): PostgresGate._close,
}


def _is_plain(_: Pipeline) -> None:
    """Of a message to which the server owes nothing."""


_CARRIED: Mapping[int, Callable[[Pipeline], None]] = {
    ord("D"): Pipeline.described,  # shows no rows
    ord("S"): Pipeline.synced,
    ord("c"): Pipeline.copied,
    ord("f"): Pipeline.copied,
    ord("d"): _is_plain,
    ord("H"): _is_plain,
    ord("X"): _is_plain,
}
"""What needs no decision, and none of whose bytes are read."""

_EXECUTE, _SYNC = ord("E"), ord("S")
_PERHAPS_UNDECIDED = frozenset({*_CARRIED, _EXECUTE})
