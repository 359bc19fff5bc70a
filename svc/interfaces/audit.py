"""The seams of the audit log: where its rows are read, where its heads are kept.

Appending is ``tx.audit.append`` on the page ``svc.interfaces.facets``, because
a record belongs to the transaction of what it records.  Who has no store writes
to an :class:`IAuditSink`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from zope.interface import Attribute, Interface

from svc.model.audit.ledger import ChainHead, ChainRow
from svc.model.audit.record import AuditRecord, SignedHead
from svc.model.audit.request import RepeatedRequest, RequestRecord
from svc.model.signing import Signed

HeadVerifier = Callable[[Signed, float], object]
"""``verify(signed, at)``: raises SvcError unless *signed* was made for the purpose of
heads by a key whose certificates were valid at *at* (Unix seconds) and end in a trusted root."""

OriginVerifier = Callable[[Signed, float], object]
"""``verify(signed, at)``: raises SvcError unless *signed* was made for the purpose
``audit-origin`` by a key whose certificate was valid at *at* and ends in the pinned root."""


class IChain(Interface):
    """The durable rows of the log, as the signer of heads reads them."""

    async def head() -> ChainHead:
        """The last link; only what is committed."""

    async def rows(from_seq: int, limit: int) -> tuple[ChainRow, ...]:
        """At most *limit* links from *from_seq* on, in order."""


class IAuditSink(Interface):
    """Where records are written away from the chain, before what they record is done."""

    async def write(record: AuditRecord, holder: str | None = None) -> None:
        """Return once *record* is durable: a crash of this process no longer loses it.

        Called on the reactor's thread by whoever is about to grant something; many may
        wait at once, and share one write to the disk.

        Args:
            record: Without a place; the sink gives it one.
            holder: The id of the person or node that caused it, whose share of the room
                it takes; None for the end of a session and the origin's own events,
                which may use what is kept from everybody else.

        Raises:
            SvcError: ``audit_spool_full`` or another reason why it is not written; what
                it was to allow must not happen.
        """

    def write_request(
        request: RequestRecord | RepeatedRequest[Any], holder: str
    ) -> Awaitable[None] | None:
        """What to await until the request may pass; None: it may, where it need not be durable yet.

        What many ask for at once is one write to the disk, and enters the log as one batch.

        Args:
            holder: The id of the person who asked.

        Raises:
            SvcError: as :meth:`write`; the request must not pass.
        """


class IHeadKeeper(Interface):
    """Keeps signed heads outside the store.  Every method may block on a disk."""

    def newest() -> SignedHead | None:
        """The greatest head kept, or None where none ever was.

        Raises:
            AuditBroken: what is kept cannot be read, or contradicts itself.
        """

    def keep(head: SignedHead) -> None:
        """Keep *head*; returns once it is durable.  Called in the order of tree sizes."""

    def give_up(size: int) -> int:
        """Keep the heads over more than *size* records apart from now on; how many there were.

        For a log that goes on from an older store, as a signed record says.  Again changes nothing.

        Raises:
            AuditBroken: what is kept cannot be read.
        """

    def heads() -> Iterator[SignedHead]:
        """All heads kept until this call, oldest first; later ones are not shown.

        Raises:
            AuditBroken: while iterating, at what cannot be read.
        """


class IHeadSink(Interface):
    """A place outside that gets a copy of each signed head; the same one may come twice."""

    name: str = Attribute("What the log calls it: the URL it was made of; holds no secret.")

    async def put(line: bytes) -> None:
        """Store one head, a line without its newline. Returns once the head is stored there.

        Cancelled when it takes too long.

        Raises:
            SvcError, OSError: the place may not have it; it is tried again.
        """

    def close() -> None:
        """Called once, after the last head; returns at once, whatever is under way."""


class IHeadSource(Interface):
    """A sink that can be read too."""

    name: str = Attribute("As :class:`IHeadSink`.")

    async def newest() -> SignedHead | None:
        """The last head stored there, unverified; None if there is none.

        Cancelled when it takes too long.

        Raises:
            AuditBroken, OSError: it cannot be read.
        """
