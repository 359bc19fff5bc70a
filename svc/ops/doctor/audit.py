"""Checks of the audit log: its queue, its signed heads, its newest records, and the rows it covers.

The whole log is verified by ``svc authority audit verify``; here only so much that a check of
every hour stays cheap.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from svc.audit.checkpoint.anchor import AnchorDirectory
from svc.audit.checkpoint.head import head_time
from svc.audit.checkpoint.witness import newest_in
from svc.interfaces.store import ITransaction
from svc.model.audit.ledger import ChainRow
from svc.model.audit.outbox import QueueCounts
from svc.model.audit.record import SignedHead, chain_hash
from svc.model.clocks import since
from svc.model.doctor import Finding, fail, info, ok, warn
from svc.ops.doctor.check import Check
from svc.ops.doctor.context import CheckContext
from svc.ops.doctor.trust import newest_head, verified_state

_AUTHORITY = ("authority",)
NEWEST = 1000
"""Records that are verified: the last ones."""

LATE_SECS = 60.0
"""So long a record may wait for a signed head, whatever the configuration says."""

_NAMED = 5
_WHO = "find out who changed the store; docs/how-to/unsigned-rows.md says how to put it right"
QUEUED_LOOKED = 500
"""So many rows of the queue are looked at for a signature; the oldest come first."""

VERIFY = "find the first bad record with: svc authority audit verify"


def _queue(context: CheckContext) -> Iterator[Finding]:
    """Rows that releases up to 0.10.0-rc.6 queued have no signature, and are held by this one."""

    def look(tx: ITransaction) -> tuple[QueueCounts, int]:
        first = tx.outbox.rows(0, QUEUED_LOOKED)
        return tx.outbox.counts(), sum(one.hold is None and not one.row.signature for one in first)

    counts, unsigned = context.store.look("doctor queue", look)
    text = f"{counts.rows} rows waiting ({counts.held} held)"
    if counts.held:
        yield warn(text, "look at the held rows with: svc authority audit outbox list")
    elif unsigned:
        yield warn(
            f"{text}, of which {unsigned} have no signature and will be held as unsigned",
            "before the upgrade, let the release that queued them bring them into the log",
        )
    elif counts.rows:
        yield info(text, "an upgrade begins with 0 rows waiting: wait until they are in the log")
    else:
        yield ok(text)


def _head(context: CheckContext) -> Iterator[Finding]:
    """The head is read before the store: none can then cover more than is stored."""
    head = newest_head(context)
    size = 0 if head is None else head.head.tree_size

    def look(tx: ITransaction) -> tuple[int, Sequence[ChainRow]]:
        return tx.audit.head().seq, tx.audit.rows(size + 1, 1)

    records, uncovered = context.store.look("doctor head", look)
    waited = context.at - _recorded_at(uncovered[0]) if uncovered else 0.0
    is_late = waited > max(LATE_SECS, 10 * context.settings.audit.head_after_secs)
    if head is None:
        yield _without_head(records, is_late)
        return
    when = head.head.time
    text = f"the newest signed head covers {size} of {records} records, and is of {when}"
    if is_late:
        yield warn(
            f"{text}; a record has waited {since(waited)} for one",
            "see the log of the leader for why heads are not signed",
        )
    yield ok(text)


def _without_head(records: int, is_late: bool) -> Finding:
    if not records:
        return ok("the log is empty, and has no signed head yet")
    text = f"no signed head covers any of the {records} records"
    if not is_late:
        return info(f"{text}; the first is made a moment after the first record")
    return fail(text, "put back the anchor directory from a backup, or a copy from a witness")


def _recorded_at(row: ChainRow) -> float:
    try:
        return datetime.fromisoformat(json.loads(row.canonical)["time"]).timestamp()
    except (ValueError, KeyError, TypeError):
        return 0.0


def _log(context: CheckContext) -> Iterator[Finding]:
    head = AnchorDirectory(context.state / "anchor").newest()
    rows = context.store.look("doctor log", lambda tx: tx.audit.tail(NEWEST))
    if not rows:
        yield ok("the log is empty")
        return
    before = rows[0].prev_hash
    for at, row in enumerate(rows, rows[0].seq):
        if row.seq != at:
            yield fail(f"record {at} is missing", VERIFY)
            return
        if row.prev_hash != before:
            yield fail(f"record {at} does not follow from the one before it", VERIFY)
            return
        if chain_hash(row.seq, row.prev_hash, row.canonical) != row.hash:
            yield fail(f"record {at} was changed", VERIFY)
            return
        before = row.hash
    yield from _under(head, rows)


def _under(head: SignedHead | None, rows: Sequence[ChainRow]) -> Iterator[Finding]:
    """Whether the record that a signed head ends with is the stored one."""
    if head is not None:
        covered = next((row for row in rows if row.seq == head.head.tree_size), None)
        if covered is not None and covered.hash != head.head.last_hash:
            yield fail(
                f"record {covered.seq} is not the one that the newest signed head was made over",
                VERIFY,
            )
    yield ok(
        f"the newest {len(rows)} of {rows[-1].seq} records follow from one another; the whole log "
        "is verified by svc authority audit verify"
    )


def _anchor(context: CheckContext) -> Iterator[Finding]:
    """Whether the files of heads can be read, and are ours alone."""
    directory = context.state / "anchor"
    keeper = AnchorDirectory(directory)
    newest = keeper.newest()
    if newest is None:
        yield info(f"{directory} has no signed head yet")
        return
    count = sum(1 for _ in keeper.heads())
    mode = stat.S_IMODE(os.stat(directory).st_mode)
    if mode & 0o022:
        yield fail(f"{directory}: other users can write there", f"run: chmod 700 {directory}")
    yield ok(f"{directory} keeps signed heads: {count}, the newest over {newest.head.tree_size}")


def _witnesses(context: CheckContext) -> Iterator[Finding]:
    named = context.settings.audit.witness
    if not named:
        yield info(
            "audit.witness names nobody: only the Authority's host keeps signed heads",
            "have a copy of each head kept where the gateway's operators cannot write",
        )
        return
    own = AnchorDirectory(context.state / "anchor").newest()
    for url in named:
        if url.startswith("file://"):
            yield _file_witness(context, Path(url.removeprefix("file://")), own)
        else:
            yield info(f"{url}: not asked, because a check reaches no further than it must")


def _file_witness(context: CheckContext, path: Path, own: SignedHead | None) -> Finding:
    if own is None:
        return ok(f"{path}: there is no signed head to keep yet")
    last = newest_in(path)
    hint = "see the log of the leader; a witness that comes back gets the newest heads"
    if last is None:
        return warn(f"{path}: keeps no head", hint)
    late = head_time(own.head) - head_time(last.head)
    if late > LATE_SECS:
        return warn(f"{path}: its newest head is {since(late)} older than ours", hint)
    return ok(f"{path}: keeps heads, the newest over {last.head.tree_size}")


def _unsigned_rows(context: CheckContext) -> Iterator[Finding]:
    verified = verified_state(context)
    unsigned = verified.unsigned
    for table in verified.unreadable:
        yield fail(f"the rows of the sort {table} cannot be read", _WHO)
    if not unsigned:
        yield ok("every protected row is as its signed record says")
        return
    names = ", ".join(one.subject for one in unsigned[:_NAMED])
    more = f" and {len(unsigned) - _NAMED} more" if len(unsigned) > _NAMED else ""
    yield fail(
        f"rows that are not what a signed record says, and are not applied: {len(unsigned)} "
        f"({names}{more})",
        _WHO,
    )


CHECKS = (
    Check("audit.queue", _AUTHORITY, _queue, needs_state=True),
    Check("audit.head", _AUTHORITY, _head, needs_state=True),
    Check("audit.log", _AUTHORITY, _log, needs_state=True),
    Check("audit.anchor", _AUTHORITY, _anchor, needs_state=True),
    Check("audit.witness", _AUTHORITY, _witnesses, needs_state=True),
    Check("audit.unsigned_rows", _AUTHORITY, _unsigned_rows, needs_state=True),
)
