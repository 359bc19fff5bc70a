"""Continues from an older store because an operator asked for it (rule R10).

``svc authority audit adopt`` leaves the request in the anchor directory: the
greatest head that is known, the end of the store as it was looked at, and the
reason.  The next start of the Authority that writes does exactly that or is
refused: a record names both heads, the heads of the lost line are kept apart,
and the first head of the line that goes on proves the record to everybody who
still keeps the greater head.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import define, field, frozen
from twisted.logger import Logger

from svc.audit.checkpoint.anchor import AnchorDirectory
from svc.audit.checkpoint.exchange import HeadExchange
from svc.audit.checkpoint.head import from_line, head_time, to_line
from svc.audit.checkpoint.monitor import LogWatch
from svc.audit.checkpoint.rewind import Restoration, lost_head
from svc.audit.checkpoint.signer import HeadWriter
from svc.audit.checkpoint.startup_request import StartupRequestFile
from svc.audit.state.anchor import StateAnchor, check_anchor
from svc.audit.state.in_force import StateBroken, StateView
from svc.authority.state.recorder import Recorder, operator
from svc.errors import AuditBroken, Fault, Malformed, StoreUnavailable, SvcError
from svc.interfaces.audit import IChain
from svc.interfaces.store import IStore, ITransaction
from svc.model.audit.events import AUDIT_CUT, STORE_RESTORED
from svc.model.audit.ledger import ChainHead, ChainRow
from svc.model.audit.record import SignedHead, rfc3339
from svc.model.canonical import Json, decode
from svc.runtime import durable
from svc.runtime.services import AsyncService
from svc.runtime.threads import InThread

RESTORE_REQUEST = "adopt-log.json"
"""In the anchor directory."""

MAX_REASON = 1000

ASIDE_BATCH = 512

_log = Logger(namespace="svc_authority")


class NotRestored(SvcError):
    """An older store that cannot be adopted as requested."""

    fault = Fault.PRECONDITION
    reason = "audit_not_adopted"


@frozen
class RestoreRequest:
    """What an operator reviewed, and why the log should continue from there.

    Attributes:
        lost: The greatest head known of the line that is given up; None where the store
            holds every head's records, and only records that no head covers are damaged.
        differs: Records that the smallest known head of that line covers which the store lacks.
        end: Where the store ends, as the operator saw it.
        good: The last record that verifies, from which the log goes on; what is behind it
            is taken out.
    """

    reason: str
    uid: int
    lost: SignedHead | None
    differs: int
    end: ChainHead
    good: ChainHead

    def is_before(self, head: SignedHead) -> bool:
        """Whether *head*, which the store holds, was signed before the two lines parted.

        What was signed later than the lost head may cover records that were written to the
        older store before anybody noticed.
        """
        if self.lost is None:
            return True
        size, time = head.head.tree_size, head.head.time
        return size < self.differs and time <= self.lost.head.time


def restore_request_file(path: Path) -> StartupRequestFile[RestoreRequest]:
    """The file of that request."""
    return StartupRequestFile(
        path=path, form_of=_form_of, request_of=_request_of, refused=NotRestored
    )


def _form_of(request: RestoreRequest) -> Mapping[str, object]:
    return {
        "reason": request.reason,
        "uid": request.uid,
        "lost": "" if request.lost is None else to_line(request.lost).decode("ascii"),
        "differs": request.differs,
        "seq": request.end.seq,
        "hash": request.end.hash.hex(),
        "good_seq": request.good.seq,
        "good_hash": request.good.hash.hex(),
    }


def _request_of(form: Mapping[str, Any]) -> RestoreRequest:
    lost = str(form["lost"]).encode()
    return RestoreRequest(
        reason=str(form["reason"]),
        uid=int(form["uid"]),
        lost=from_line(lost, {}) if lost else None,
        differs=int(form["differs"]),
        end=ChainHead(int(form["seq"]), bytes.fromhex(form["hash"])),
        good=ChainHead(int(form["good_seq"]), bytes.fromhex(form["good_hash"])),
    )


def newest_in(heads: Sequence[SignedHead], holds: Callable[[SignedHead], bool]) -> int:
    """How many of *heads* the store holds, whose order is that of their sizes.

    A record's hash covers every record before it: where one is there, all before it are.
    """
    low, high = 0, len(heads)
    while low < high:
        middle = (low + high) // 2
        if holds(heads[middle]):
            low = middle + 1
        else:
            high = middle
    return low


def common_head(tx: ITransaction, heads: Sequence[SignedHead]) -> SignedHead | None:
    """The greatest of *heads* whose records the store holds."""

    def holds(head: SignedHead) -> bool:
        size = head.head.tree_size
        rows = tx.audit.rows(size, 1)
        return bool(rows) and (rows[0].seq, rows[0].hash) == (size, head.head.last_hash)

    found = newest_in(heads, holds)
    return heads[found - 1] if found else None


@define(slots=False, eq=False)
class RestoreCheck(AsyncService):
    """Comes before heads are signed and anything is written: the store is the one that is known.

    Attributes:
        store: Written to by whoever leads, whatever its log.
        chain: The rows, as the watch reads them.
        exchange: Takes what other Authorities signed, once the log is known to be right.
    """

    store: IStore
    chain: IChain
    recorder: Recorder
    file: StartupRequestFile[RestoreRequest]
    keeper: AnchorDirectory
    state: StateAnchor
    watch: LogWatch
    heads: HeadWriter
    exchange: HeadExchange | None
    now: Callable[[], float]
    in_thread: InThread
    _seq: int = field(default=0, init=False)

    async def start(self) -> None:
        """Carry out the request, or check that nothing is wrong.

        Raises:
            AuditBroken: ``audit_rolled_back``.
            NotRestored: the store is not the one that the operator looked at.
        """
        try:
            await self._begin()
        except AuditBroken as broken:
            raise broken.at_start() from None
        if self.exchange is not None:
            await self.exchange.take()

    async def _begin(self) -> None:
        await self.watch.ask_witnesses()
        request = self.file.read()
        if request is None:
            await self.watch.confirm()
            return
        if not await self._is_due(request):
            await self.watch.confirm()
            _log.warn("the audit log has no fault; the request to adopt it is dropped")
            self.file.done()
            return
        self._check(request)
        heads = await self._kept()
        await self._put_aside(request)
        row = await self.store.run(
            "adopt an older store", lambda tx: self._record(tx, request, heads)
        )
        await self._give_up(heads)
        lost = lost_head(row.canonical)
        if lost is None:
            self.file.done()
            _log.warn(
                "continuing without records that did not verify", record=row.seq, uid=request.uid
            )
            return
        self.watch.go_on_without(Restoration(row.seq, rfc3339(self.now()), *lost))
        self._seq = row.seq
        self.heads.prove_restored(row.seq)
        _log.warn("continuing from an older store", record=row.seq, lost=lost[0], uid=request.uid)

    async def _put_aside(self, request: RestoreRequest) -> None:
        """Keep the records that are taken out beside the anchor: they may be evidence."""
        if request.good == request.end or await self.chain.head() != request.end:
            return  # there are none, or a life before this one has taken them out
        lines, after, count = list[bytes](), request.good.seq, ASIDE_BATCH
        while after < request.end.seq:
            try:
                rows = await self.chain.rows(after + 1, count)
            except (AuditBroken, StoreUnavailable) as unreadable:
                # The one record and not the store, which still says where it ends.
                await self.chain.head()
                if count == 1:
                    after += 1
                    lines.append(_unreadable(after, unreadable))
                count = 1
                continue
            if not rows:
                break
            lines += [_aside(row) for row in rows]
            after = rows[-1].seq
        if lines:
            name = f"cut-{request.good.seq + 1}-{request.end.seq}.jsonl"
            path = self.keeper.path / name
            await self.in_thread(lambda: durable.replace(path, b"".join(lines)))

    async def confirmed(self) -> None:
        """The head that proves it is stored, so the request is complete.

        Raises:
            AuditBroken: ``audit_rolled_back``: somebody knows of more than was given up.
        """
        await self.watch.confirm()
        if self._seq:
            self.file.done()

    async def _is_due(self, request: RestoreRequest) -> bool:
        if request.good != request.end:
            # Until it was cut, or the record that says so is the end.
            if await self.chain.head() == request.end:
                return True
            rows = await self.chain.rows(request.good.seq + 1, 1)
            return bool(rows) and _is_cut(rows[0], request)
        assert request.lost is not None  # else nothing was asked for
        size = request.lost.head.tree_size
        rows = await self.chain.rows(size, 1)
        return not rows or rows[0].hash != request.lost.head.last_hash

    def _check(self, request: RestoreRequest) -> None:
        if request.lost is None:
            return
        self.watch.verify_head(request.lost.signed, head_time(request.lost.head))
        lost = request.lost
        if rfc3339(self.now()) <= lost.head.time:
            raise NotRestored(
                f"the clock of this host is before {lost.head.time}, when the abandoned head "
                "was signed; correct it"
            )
        presented = self.watch.latest_checkpoint.kept
        if presented is not None and presented.head.tree_size > lost.head.tree_size:
            raise NotRestored(
                f"a head over {presented.head.tree_size} records has become known in the meantime; "
                "run `svc authority audit adopt` again"
            )

    async def _kept(self) -> list[SignedHead]:
        return await self.in_thread(lambda: list(self.keeper.heads()))

    def _record(
        self, tx: ITransaction, request: RestoreRequest, heads: Sequence[SignedHead]
    ) -> ChainRow:
        """The record; one that a life before this one wrote is taken as it is."""
        end = tx.audit.head()
        if end != request.end:
            done = _recorded(tx, request)
            if done is not None:
                return done
            raise NotRestored(
                f"the store ended at record {request.end.seq} when `svc authority audit adopt` "
                f"was run, and now ends at {end.seq}; run it again"
            )
        # Also where no record is dropped: what only refers to records that are gone goes.
        dropped = tx.repair.cut_after(request.good.seq)
        common = common_head(tx, heads)
        size = 0 if common is None else common.head.tree_size
        tx.heads.drop_after(size)
        row = None
        if dropped:
            details: dict[str, Json] = {
                "first_n": request.good.seq + 1,
                "last_n": request.end.seq,
                "count": dropped,
                "head_size": size,
                "note": request.reason,
                "local_uid": request.uid,
            }
            row = self.recorder.append(tx, AUDIT_CUT, operator(request.uid), details=details)
        if request.lost is None:
            assert row is not None  # else nothing was asked for
            return row
        shared = common_head(tx, [head for head in heads if request.is_before(head)])
        details = {
            "lost_size": request.lost.head.tree_size,
            "lost_hash": request.lost.hash.hex(),
            "shared_size": 0 if shared is None else shared.head.tree_size,
            "until": request.lost.head.time,
            "note": request.reason,
            "local_uid": request.uid,
        }
        if common is not None:
            details |= {"head_size": size, "head_hash": common.hash.hex()}
        return self.recorder.append(tx, STORE_RESTORED, operator(request.uid), details=details)

    async def _give_up(self, heads: Sequence[SignedHead]) -> None:
        common = await self.store.read("the greatest head", lambda tx: common_head(tx, heads))
        size = 0 if common is None else common.head.tree_size
        tip, view = self.state.tip(), self.state.checkpoint() or StateView()
        try:
            await self.store.read(
                "check the state anchor", lambda tx: check_anchor(tx.state, view, tip)
            )
        except StateBroken:
            await self.in_thread(self.state.set_aside)
        await self.in_thread(lambda: self.keeper.give_up(size))


def _recorded(tx: ITransaction, request: RestoreRequest) -> ChainRow | None:
    """The last record that an earlier life wrote for this request; None if it wrote none."""
    rows = list(tx.audit.rows(request.good.seq + 1, 3))
    if not rows or rows[0].prev_hash != request.good.hash:
        return None
    last = rows[0]
    if request.good != request.end and not _is_cut(rows.pop(0), request):
        return None
    if request.lost is None:
        return None if rows else last
    return rows[0] if len(rows) == 1 and _is_of(rows[0], request) else None


def _is_cut(row: ChainRow, request: RestoreRequest) -> bool:
    """Whether the record says that the records to be cut were taken out."""
    try:
        form = decode(row.canonical)
    except Malformed:
        return False
    if not isinstance(form, Mapping) or form.get("event") != AUDIT_CUT.name:
        return False
    details = form.get("details")
    cut = {"first_n": request.good.seq + 1, "last_n": request.end.seq}
    return isinstance(details, Mapping) and cut.items() <= dict(details).items()


def _is_of(row: ChainRow, request: RestoreRequest) -> bool:
    """Whether the record gives up the head that the request names."""
    found = lost_head(row.canonical)
    return found is not None and request.lost is not None and found[1] == request.lost.hash.hex()


def _unreadable(seq: int, failed: SvcError) -> bytes:
    return json.dumps({"seq": seq, "unreadable": failed.text}).encode("ascii") + b"\n"


def _aside(row: ChainRow) -> bytes:
    form = {
        "seq": row.seq,
        "prev_hash": row.prev_hash.hex(),
        "hash": row.hash.hex(),
        "canonical": row.canonical.decode("utf-8", "backslashreplace"),
        "signature": row.signature.hex(),
    }
    return json.dumps(form).encode("ascii") + b"\n"


@define(slots=False, eq=False)
class RestoreConfirmation(AsyncService):
    """Comes after heads are signed and before anything is written."""

    restoring: RestoreCheck

    async def start(self) -> None:
        """See :meth:`RestoreCheck.confirmed`."""
        await self.restoring.confirmed()
