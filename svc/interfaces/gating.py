"""What a gate is given: one session whose requests it reads, decides one by one, and never writes.

The gate of a kind is ``async def gate(session: IGatedSession)``.  It reads the
client's bytes from ``session.requests`` and the target's from
``session.answers``, asks ``session.decide`` for each request, and passes the
bytes on as they are or names an edit of the kind's closed list, which the
Connector (for requests) or the person's program (for answers) makes.

A gate whose session is broken off is cancelled.  It may still insert a last
word, where the answers stand between two messages, and must not wait.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from re import Pattern

from attrs import define
from zope.interface import Attribute, Interface

from svc.model.canonical import Json
from svc.model.policy.access import ContextValue
from svc.model.policy.requested import ApprovedAccess


@define
class RequestVerdict:
    """The outcome of one request.

    Nobody changes one; a frozen one would take twice as long to make, for each request.

    Attributes:
        decision_id: Under which it is recorded; what ``svc why`` is asked for.
        policies: By ``@id``, those that decided.
        reason: A stable word; empty for what is allowed.
        request_hint: Of a denial that an approval would turn: what the person types to ask for
            one.
        basis: What it was decided by; only a session can read it.
        approved: The approval that it was decided with, if any; a session's too.
        lacks_text: Of a denial that only an approval of the exact text would turn, where the
            request has no text that can be asked for.
    """

    allowed: bool
    decision_id: str
    policies: tuple[str, ...] = ()
    reason: str = ""
    basis: tuple[int, ...] = ()
    request_hint: str = ""
    approved: ApprovedAccess | None = None
    lacks_text: bool = False

    @property
    def is_recorded(self) -> bool:
        """Whether it is on record: a denial that is not makes no edit."""
        return bool(self.basis)


class IGatedStream(Interface):
    """One direction of a gated session: bytes are held until the gate decides about them."""

    held: bytes = Attribute("What has come and was not passed on.")

    async def until(mark: bytes | Pattern[bytes], most: int) -> bytes | None:
        """What is held up to and with *mark*; None at the stream's end.

        Of a pattern: up to and with its first match, which is at most 16 bytes long.

        Raises:
            Malformed: no mark within *most* bytes, or within what a stream holds at most; or the
                stream ends amid them.
        """

    async def some() -> bytes | None:
        """What is held, once anything is; None at the stream's end.

        Empty where whoever it leads to is gone: nothing more need be decided.
        """

    async def at_least(size: int) -> bytes | None:
        """The first *size* bytes held, once there are so many; None at the stream's end.

        Raises:
            Malformed: a stream holds no *size* bytes at most; or it ends amid them.
        """

    def ahead(most: int) -> bytes:
        """What is held now, of that the first *most* bytes."""

    async def pass_on(size: int) -> None:
        """Pass on the next *size* bytes as they are, those that are still to come as they come.

        Raises:
            Malformed: the stream ends amid them, or *size* is negative.
        """

    def edit(size: int, name: str, values: Mapping[str, str]) -> None:
        """Pass on the next *size* bytes, all of them held, for this edit of the kind's list."""

    def insert(name: str, values: Mapping[str, str]) -> None:
        """Name an edit that adds something before the next byte, whether or not one ever comes.

        Nothing holds back a gate that inserts: one that does so for each request awaits
        :meth:`room` before it reads the next.
        """

    async def room() -> None:
        """Wait until whoever this leads to takes more; at once where it does, or is gone."""

    def close() -> None:
        """Say to the other side that nothing more comes; what has passed still arrives."""

    def give_up() -> None:
        """Whoever this leads to is gone: nothing more passes, and who reads it is told the end."""


class IGatedSession(Interface):
    """One session between a person's program and a Connector."""

    resource: str = Attribute("Its id.")
    ceiling: Mapping[str, str] = Attribute("What the Connector holds the session to, by name.")
    requests: IGatedStream = Attribute("From the person.")
    answers: IGatedStream = Attribute("From the target.")
    ending: str = Attribute("The word of why it is broken off, once it is; empty before.")

    async def decide(
        action: str, facts: Mapping[str, ContextValue], size: int = 0, text: bytes = b""
    ) -> RequestVerdict:
        """Decide one request by the newest policy, record it durably, count it.

        Never raises but for cancellation: what cannot be decided or recorded is denied.

        Args:
            action: One of the kind's actions.
            facts: Of the kind's context, beyond those that every request has.  What was decided
                on a MappingProxyType is remembered, for that object: nobody may change it.
            size: How many of the bytes held, from the first, are the request.  All of them are
                replaced by edits if it is denied, or the Connector ends the session.
                0: those that ``until`` read last; where it read none, the first byte.
            text: All that the request does, as a person reads it, to be approved exactly; empty:
                it has no such text.
        """

    async def refuse(
        action: str, facts: Mapping[str, ContextValue], size: int, reason: str
    ) -> RequestVerdict:
        """Deny, and record, a request that the gate itself refuses, whatever policy says of it.

        Only bytes of a request that was denied on record can be replaced by an edit.

        Args:
            action: As for :meth:`decide`, and so are the facts and the size.
            reason: A stable word, which the record gives.
        """

    def allows(action: str, facts: Mapping[str, ContextValue]) -> bool:
        """Whether the newest policy would allow a request that nobody makes; not recorded.

        For an answer to somebody who asks what they may do.

        Raises:
            SvcError: no decision is possible now.
        """

    def watch(
        verdict: RequestVerdict, action: str, facts: Mapping[str, ContextValue]
    ) -> Callable[[], None]:
        """Break the session off once the policy no longer allows this request, which was allowed.

        Of a request that takes long: a stream, a download.  Until what is returned is called.
        """

    def stands(verdict: RequestVerdict) -> bool:
        """Whether what was allowed would be allowed now: by the same policy, in the same second.

        For a request that comes in several messages, each of which it is decided at; what runs
        again is decided, and recorded, again.
        """

    async def apart(work: str, data: bytes) -> bytes:
        """Have a library read what could kill it, in a process of its own.

        One piece at a time, under limits of time and memory: it may come back late, or not well.

        Args:
            work: A function of one argument, as in ``module:name``, which the process imports.
            data: What it is given; it returns bytes, too.

        Raises:
            SvcError: it was not done.
        """

    async def record(event: str, details: Mapping[str, Json]) -> None:
        """Record durably something else that came up in this session.

        Args:
            event: One of the kind's own.
            details: Of its fields; who, when, the session and the resource are added.

        Raises:
            SvcError: it cannot be recorded, or is not of its form; the session should end.
        """

    async def both(requests: Awaitable[None], answers: Awaitable[None]) -> None:
        """Serve both directions; each is closed when its function returns."""

    async def either(requests: Awaitable[None], answers: Awaitable[None]) -> None:
        """Serve both directions until one function returns, or raises; the other is cancelled."""
