"""``svc authority audit outbox``: rows that wait for the log, and what to do with held ones.

On the Authority's host the list reads the store directly, so it works with every role stopped;
letting a row go or throwing it away is asked of the Authority that leads, and is on record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from svc.cli.calls import asked
from svc.cli.control import admin, authority_settings
from svc.cli.forms import WORD
from svc.cli.groups import Group
from svc.cli.lane import AdminLane
from svc.cli.output import document, hint, json_option, print_lines, print_result, table
from svc.proto.gate.v1 import admin_pb2 as pb

if TYPE_CHECKING:
    from svc.config import RoleSettings
    from svc.interfaces.rpc import IRpcChannel
    from svc.interfaces.store import ITransaction
    from svc.model.audit.outbox import QueuedRow

MOST = 1000
LARGEST = 2**63 - 1


@click.group(cls=Group)
def outbox() -> None:
    """List, accept and discard rows that Proxies and standby Authorities sent to the log."""


@outbox.command("list")
@click.option("--held", "held_only", is_flag=True, help="Show only held rows.")
@click.option(
    "--after",
    type=click.IntRange(0, LARGEST),
    default=0,
    metavar="ID",
    help=f"Start after row ID; at most {MOST} rows are shown.",
)
@json_option
@click.pass_context
def list_rows(context: click.Context, held_only: bool, after: int, as_json: bool) -> None:
    """List the rows in the queue, oldest first; their contents are not verified."""
    way = admin(context)
    rows = (
        _asked(way, held_only, after)
        if isinstance(way, AdminLane)
        else _stored(authority_settings(context), held_only, after)
    )
    if as_json:
        print_lines([document(rows)])
    elif rows:
        heads = ("ID", "REASON", "ORIGIN", "SPOOL", "N", "EVENT", "QUEUED", "HELD")
        names = ("id", "reason", "origin", "spool_id", "n", "event")
        cells = [
            [
                *(row[name] or "" for name in names),
                row["queued_at"][:19] + "Z",
                row["held_at"] and row["held_at"][:19] + "Z",
            ]
            for row in rows
        ]
        print_lines(table(heads, cells))
    else:
        hint(["no rows"])


@outbox.command("release")
@click.argument("row", metavar="ID", type=click.IntRange(1, LARGEST))
@click.option("--reason", required=True, type=WORD, help="The reason, for the audit record.")
@json_option
@click.pass_context
def release(context: click.Context, row: int, reason: str, as_json: bool) -> None:
    """Accept the held row ID into the log.

    Possible only if its signature is valid, as for a row that a node wrote before it was revoked,
    or one recorded as missing that arrived late. Unsigned and forged rows are refused.

    Example:
        svc --config authority.toml authority audit outbox release ID --reason "late, and genuine"
    """
    request = pb.ReleaseRowRequest(id=row, note=reason)
    answer = admin(context)("ReleaseRow", request, pb.ReleaseRowResponse)
    print_result(as_json, {"id": row, "seq": answer.seq}, [f"row {row} is record {answer.seq}"])


@outbox.command("discard")
@click.argument("row", metavar="ID", type=click.IntRange(1, LARGEST))
@click.option("--reason", required=True, type=WORD, help="The reason, for the audit record.")
@json_option
@click.pass_context
def discard(context: click.Context, row: int, reason: str, as_json: bool) -> None:
    """Discard the held row ID; an audit record keeps its digest.

    Example:
        svc --config authority.toml authority audit outbox discard ID --reason "copied in by hand"
    """
    request = pb.DiscardRowRequest(id=row, note=reason)
    answer = admin(context)("DiscardRow", request, pb.DiscardRowResponse)
    result = {"id": row, "record_digest": answer.record_digest}
    print_result(as_json, result, [f"discarded row {row}, record sha256 {answer.record_digest}"])


def _stored(settings: RoleSettings, held_only: bool, after: int) -> list[dict[str, Any]]:
    """From the store, which works with every role stopped."""
    from svc.ops.store import store_place

    def look(tx: ITransaction) -> list[QueuedRow]:
        found: list[QueuedRow] = []
        last = after
        while len(found) < MOST:
            rows = tx.outbox.rows(last, MOST)
            found += [row for row in rows if row.hold is not None or not held_only]
            if len(rows) < MOST:
                break
            last = rows[-1].id
        return found[:MOST]

    return [_shown(row) for row in store_place(settings).look("audit queue", look)]


def _asked(way: AdminLane, held_only: bool, after: int) -> list[dict[str, Any]]:
    """From the Authority, a part at a time."""

    async def listed(channel: IRpcChannel) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        last = after
        while len(found) < MOST:
            request = pb.ListQueueRequest(held=held_only, after=last)
            told = await asked(channel, "ListQueue", request, pb.ListQueueResponse)
            found += map(_told, told.rows)
            if not told.next:
                break
            last = told.next
        return found[:MOST]

    return way.over_one(listed)


def _told(row: pb.QueuedRow) -> dict[str, Any]:
    from svc.model.audit.record import rfc3339

    return {
        "id": row.id,
        "reason": row.reason or None,
        "origin": row.origin or None,
        "spool_id": row.spool_id or None,
        "n": row.n or None,
        "event": row.event or None,
        "event_id": row.event_id or None,
        "key_id": row.key_id or None,
        "record_digest": row.record_digest,
        "queued_at": rfc3339(row.queued_at),
        "held_at": rfc3339(row.held_at) if row.held_at else None,
    }


def _shown(row: QueuedRow) -> dict[str, Any]:
    from svc.model.audit.outbox import RowClaim
    from svc.model.audit.record import rfc3339

    claim = RowClaim.of(row.row)
    return {
        "id": row.id,
        "reason": None if row.hold is None else row.hold.value,
        "origin": claim.origin or None,
        "spool_id": claim.spool_id or None,
        "n": claim.n or None,
        "event": claim.event or None,
        "event_id": claim.event_id or None,
        "key_id": row.row.key_id or None,
        "record_digest": row.digest.hex(),
        "queued_at": rfc3339(row.queued_at),
        "held_at": None if row.held_at is None else rfc3339(row.held_at),
    }
