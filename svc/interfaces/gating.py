"""What a gate is given: one session whose requests it reads, decides one by one, and never writes.

The gate of a kind is ``async def gate(session: IGatedSession)``.  It reads the
client's bytes from ``session.requests`` and the target's from
``session.answers``, asks ``session.decide`` for each request, and passes the
bytes on as they are or names an edit of the kind's closed list, which the
Connector (for requests) or the person's program (for answers) makes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping

from attrs import frozen
from zope.interface import Attribute, Interface

from svc.model.canonical import Json
from svc.model.policy.access import ContextValue


@frozen
class RequestVerdict:
    """The outcome of one request.

    Attributes:
        decision_id: Under which it is recorded; what ``svc why`` is asked for.
        policies: By ``@id``, those that decided.
        reason: A stable word; empty for what is allowed.
    """

    allowed: bool
    decision_id: str
    policies: tuple[str, ...] = ()
    reason: str = ""


class IGatedStream(Interface):
    """One direction of a gated session: bytes are held until the gate decides about them."""

    held: bytes = Attribute("What has come and was not passed on.")

    async def until(mark: bytes, most: int) -> bytes | None:
        """What is held up to and with *mark*; None at the stream's end.

        Raises:
            Malformed: no mark within *most* bytes, or within what a stream holds at most; or the
                stream ends amid them.
        """

    async def pass_on(size: int) -> None:
        """Pass on the next *size* bytes as they are, those that are still to come as they come.

        Raises:
            Malformed: the stream ends amid them, or *size* is negative.
        """

    def edit(size: int, name: str, values: Mapping[str, str]) -> None:
        """Pass on the next *size* bytes, all of them held, for this edit of the kind's list."""


class IGatedSession(Interface):
    """One session between a person's program and a Connector."""

    resource: str = Attribute("Its id.")
    ceiling: Mapping[str, str] = Attribute("What the Connector holds the session to, by name.")
    requests: IGatedStream = Attribute("From the person.")
    answers: IGatedStream = Attribute("From the target.")

    async def decide(
        action: str, facts: Mapping[str, ContextValue], size: int = 0
    ) -> RequestVerdict:
        """Decide one request by the newest policy, record it durably, count it.

        Never raises but for cancellation: what cannot be decided or recorded is denied.

        Args:
            action: One of the kind's actions.
            facts: Of the kind's context, beyond those that every request has.
            size: How many of the bytes held, from the first, are the request.  All of them are
                replaced by edits if it is denied, or the Connector ends the session.
                0: those that ``until`` read last; where it read none, the first byte.
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
