"""The facets of the audit queue: what waits for the leader, and what became of it.

Part of :class:`svc.interfaces.store.ITransaction`, under the rules of
``svc.interfaces.facets``.  What the queue holds came from others: nothing in it
is trusted, and reading it never fails because of what a row says.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from zope.interface import Interface

from svc.model.audit.ledger import ChainRow, FiledRecord
from svc.model.audit.outbox import AcceptedRow, Hold, Offered, QueueCounts, QueuedRow
from svc.model.audit.replay import SpoolMemory
from svc.model.audit.spool import SpoolRow


class IOutbox(Interface):
    """The queue: rows that are durable and not yet in the log.  Any instance may add."""

    def add(rows: Sequence[Offered], at: float) -> None:
        """Queue *rows*, in order. They are not checked here."""

    def rows(after: int, limit: int) -> tuple[QueuedRow, ...]:
        """At most *limit* rows past the number *after*, held ones included, in order."""

    def waiting(
        after: int, limit: int, max_bytes: int, keys: Collection[str] = ()
    ) -> tuple[QueuedRow, ...]:
        """The rows after the number *after* that are not held, in order.

        Args:
            after: A number in the queue.
            limit: So many at most.
            max_bytes: And so much of them, but one row at least.
            keys: Rows held as ``unknown_key`` that name one of these are given, too.
        """

    def unknown_keys() -> tuple[str, ...]:
        """The key ids that rows held as ``unknown_key`` name."""

    def hold(row_id: int, why: Hold, at: float) -> bool:
        """Mark a row as held; return whether it was not held before. A second reason replaces the
        first.

        When it was held stays.
        """

    def drop(row_ids: Collection[int]) -> int:
        """Take rows out; how many of them were there."""

    def counts(origin: str | None = None) -> QueueCounts:
        """How much is in the queue, or how much of it is of *origin*."""

    def ids(limit: int) -> tuple[int, ...]:
        """The numbers of the first *limit* rows, in order."""


class ISpools(Interface):
    """What is known of the spools of others (rule R11).

    A spool is told by its origin and its id together: an id by itself is only what some
    origin says.
    """

    def uncovered(origin: str, spool_id: str, size: int) -> int | None:
        """The smallest row number of that spool past the record *size* of the log."""

    def memory(origin: str, spool_id: str) -> SpoolMemory | None:
        """The memory of a spool; None where no row of it was ever accepted.

        Raises:
            AuditBroken: what is stored is no memory.
        """

    def keep(origin: str, spool_id: str, memory: SpoolMemory) -> None:
        """Keep the memory of a spool."""

    def unended(origin: str) -> Mapping[str, SpoolMemory]:
        """The spools of *origin* that are neither closed nor lost."""

    def holed(before: float, limit: int) -> tuple[tuple[str, str, SpoolMemory], ...]:
        """Spools (origin, id, memory) with an unreported gap that was seen before *before*."""

    def queued(origin: str) -> Mapping[str, int]:
        """The greatest row number in the queue, by spool of *origin*; of rows with no fault."""

    def queued_through(origin: str, spool_id: str, n: int) -> int:
        """The last of the queued rows that follow row *n* of that spool without a hole."""

    def there(offered: Sequence[Offered]) -> frozenset[bytes]:
        """:func:`svc.model.audit.spool.row_digest` of those of *offered* that are there already.

        In the queue, or in their places in the log.  What it costs grows with *offered* only,
        however many rows are in the queue.
        """


class IOrigins(Interface):
    """Rows of others that left the queue: to the log, or thrown away; spools as in ISpools."""

    def append(rows: Sequence[SpoolRow]) -> list[ChainRow]:
        """Link *rows* to the chain, in order, with what stands beside each and its signature.

        Raises:
            Malformed: as for :meth:`svc.interfaces.facets.IAuditLog.append`.
        """

    def accepted(rows: Sequence[AcceptedRow]) -> None:
        """Keep in which places of which spools the rows were that became records.

        Raises:
            AlreadyExists: a row of such a place, or of such an event id, is in the log.
        """

    def near(decision_id: str, limit: int) -> tuple[FiledRecord, ...]:
        """At most *limit* records that name this decision or a lesser id, the greatest first.

        A batch of requests is among them under the least id that its entries can have.
        """

    def events(event_ids: Collection[str]) -> frozenset[str]:
        """Those of *event_ids* that a row in the log has."""

    def seq(origin: str, spool_id: str, n: int) -> int | None:
        """The record that row became; None where it is not in the log."""

    def discard(row_id: int, origin: str, spool_id: str, n: int, digest: bytes, at: float) -> None:
        """Remember that a row was thrown away."""

    def discarded(origin: str, spool_id: str, digests: Collection[bytes]) -> frozenset[bytes]:
        """Those of *digests* that rows of that spool had which were thrown away."""

    def reached(row_ids: Collection[int]) -> frozenset[int]:
        """Those of *row_ids* that are in the log or were thrown away by an operator."""
