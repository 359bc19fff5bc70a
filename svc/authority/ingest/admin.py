"""Lets an operator release or discard held rows.

Letting go can only mean appending a row whose signature is good under a key that
was once in force: the log never says that an origin wrote what it did not sign.
What is unsigned or forged can only be thrown away; its digest is then in the
log, in the operator's own record.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from attrs import define

from svc.audit.ingest.validate import MAY_WRITE, ValidRow, WriteRights, validate_row
from svc.audit.log.find import granted_session, is_repeated
from svc.authority.ingest.apply import QueueTransaction, standing_of
from svc.authority.ingest.notes import checked_note
from svc.authority.state.recorder import Recorder
from svc.errors import Fault, NoSuchRow, SvcError
from svc.interfaces.store import IStore, ITransaction
from svc.model.audit.events import AUDIT_DISCARDED, AUDIT_RELEASED
from svc.model.audit.outbox import QueuedRow, RowClaim
from svc.model.audit.record import Actor
from svc.model.audit.replay import RowStanding, SpoolMemory
from svc.model.audit.spool import audit_key_id, read_place, row_digest, row_hash
from svc.model.canonical import Json
from svc.model.cluster.node import Node
from svc.proto.gate.v1 import admin_pb2 as pb

MOST = 1000
"""Rows in one answer."""


class NotReleasable(SvcError):
    """A held row that may not enter the log."""

    fault = Fault.PRECONDITION
    reason = "row_not_releasable"


@define
class QueueAdmin:
    """What operators do with held rows.

    Attributes:
        may_write: The events of each role.
    """

    store: IStore
    recorder: Recorder
    now: Callable[[], float]
    may_write: WriteRights = MAY_WRITE

    async def list_rows(self, request: pb.ListQueueRequest, actor: Actor) -> pb.ListQueueResponse:
        """Rows of the queue, oldest first; nothing that they say of themselves is checked."""
        rows = await self.store.read("audit queue", lambda tx: tx.outbox.rows(request.after, MOST))
        shown = [row for row in rows if row.hold is not None or not request.held]
        return pb.ListQueueResponse(
            rows=map(_shown, shown), next=rows[-1].id if len(rows) == MOST else 0
        )

    async def release(self, request: pb.ReleaseRowRequest, actor: Actor) -> pb.ReleaseRowResponse:
        """Append a held row whose signature is good.

        Raises:
            NoSuchRow: it is not in the queue.
            NotReleasable: it is unsigned or forged, or the log has it.
        """
        note = checked_note(request.note)

        def release(tx: ITransaction) -> int:
            row = _held_row(tx, request.id)
            judged = self._releasable(tx, row)
            draining = QueueTransaction(tx, self.recorder, self.now())
            seq = draining.release(row, judged)
            draining.end()
            self._record(tx, actor, row, note, released=True)
            return seq

        return pb.ReleaseRowResponse(seq=await self.store.run("release a queued row", release))

    async def discard(self, request: pb.DiscardRowRequest, actor: Actor) -> pb.DiscardRowResponse:
        """Throw a held row away; the log keeps the digest of its record.

        Raises:
            NoSuchRow: it is not in the queue.
            NotReleasable: it is not held.
        """
        note = checked_note(request.note)

        def discard(tx: ITransaction) -> bytes:
            row, at = _held_row(tx, request.id), self.now()
            claim = RowClaim.of(row.row)
            tx.origins.discard(
                row.id, claim.origin, claim.spool_id, claim.n, row_digest(row.row), at
            )
            tx.outbox.drop([row.id])
            self._record(tx, actor, row, note, released=False)
            return row.digest

        digest = await self.store.run("discard a queued row", discard)
        return pb.DiscardRowResponse(record_digest=digest.hex())

    def _releasable(self, tx: ITransaction, row: QueuedRow) -> ValidRow:
        rows = self.recorder.rows(tx)
        # A node that was revoked may have written this while it was not.
        known = {
            audit_key_id(one.audit_key): one
            for one in tx.nodes.all()
            if one.role in MAY_WRITE.events
        }

        def signer(key_id: str) -> Node | None:
            found = known.get(key_id)
            return None if found is None else rows.node(found.id)

        facts = self.recorder.sealer.facts
        # Whom it names the operator has seen: that alone is no word against its origin.
        verdict = validate_row(
            row.row,
            signer,
            facts,
            may_write=self.may_write,
            session_row=partial(granted_session, tx),
        )
        judged = verdict.judged
        if judged is None:
            assert verdict.hold is not None
            raise NotReleasable(
                f"row {row.id} is {verdict.hold.value}: it cannot be accepted into the log; "
                "discard it (an audit record keeps its digest)"
            )
        place = judged.place
        seq = tx.origins.seq(judged.origin, place.spool_id, place.n)
        is_known = seq is not None or bool(tx.origins.events([judged.event_id]))
        if is_known or (judged.ids and is_repeated(tx, judged.ids)):
            raise NotReleasable(
                f"row {row.id} is replayed: the log already has a row with its position or "
                "event id; discard it"
            )
        memory = tx.spools.memory(judged.origin, place.spool_id) or SpoolMemory()
        if standing_of(memory, judged) is RowStanding.BROKEN or not _fits_beside(tx, judged):
            raise NotReleasable(
                f"row {row.id} is forged: it does not follow the rows of its spool, so the log "
                "would not verify with it; discard it"
            )
        return judged

    def _record(
        self, tx: ITransaction, actor: Actor, row: QueuedRow, note: str, *, released: bool
    ) -> None:
        claim = RowClaim.of(row.row)
        details: dict[str, Json] = {
            "held_event_id": claim.event_id or None,
            "spool_id": claim.spool_id or None,
            "first_n": claim.n or None,
            "record_digest": row.digest.hex(),
            "note": note,
        }
        assert row.hold is not None, "only held rows come here"
        self.recorder.append(
            tx,
            AUDIT_RELEASED if released else AUDIT_DISCARDED,
            actor,
            node_id=claim.origin or None,
            reason=row.hold.value,
            details=details,
        )


def _fits_beside(tx: ITransaction, judged: ValidRow) -> bool:
    """Whether a row agrees with the records beside its place, wherever they stand in the log.

    Of a hole that was given up the memory knows no edges; the log does.
    """
    place = judged.place
    spool = judged.origin, place.spool_id
    before, after = (_record_at(tx, *spool, n) for n in (place.n - 1, place.n + 1))
    return (before is None or row_hash(before) == place.prev) and (
        after is None or read_place(after)[1].prev == judged.hash
    )


def _record_at(tx: ITransaction, origin: str, spool_id: str, n: int) -> bytes | None:
    seq = tx.origins.seq(origin, spool_id, n)
    return None if seq is None else tx.audit.rows(seq, 1)[0].canonical


def _held_row(tx: ITransaction, row_id: int) -> QueuedRow:
    found = tx.outbox.rows(row_id - 1, 1)
    if not found or found[0].id != row_id:
        raise NoSuchRow(
            f"audit queue: there is no row {row_id}; list them: svc authority audit outbox list"
        )
    if found[0].hold is None:
        raise NotReleasable(
            f"row {row_id} is not held: the leader will process it", reason="row_not_held"
        )
    return found[0]


def _shown(row: QueuedRow) -> pb.QueuedRow:
    claim = RowClaim.of(row.row)
    return pb.QueuedRow(
        id=row.id,
        reason="" if row.hold is None else row.hold.value,
        origin=claim.origin,
        spool_id=claim.spool_id,
        n=claim.n,
        event=claim.event,
        event_id=claim.event_id,
        key_id=row.row.key_id,
        record_digest=row.digest.hex(),
        queued_at=row.queued_at,
        held_at=row.held_at or 0.0,
    )
