"""``svc authority audit``: verify the log, look at its records.

Both read the store directly, so they work with every role stopped and beside
a running Authority; neither trusts what the Authority would say of itself.
"""

from __future__ import annotations

import pwd
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from svc.cli.control import authority_settings, authority_state
from svc.cli.forms import WORD
from svc.cli.output import document, hint, say
from svc.errors import NoSuchRow

if TYPE_CHECKING:
    from svc.interfaces.facets import IAuditLog
    from svc.interfaces.store import ITransaction
    from svc.model.canonical import Json
    from svc.model.ledger import ChainRow

LAST = 10
MOST = 1000


@click.group(no_args_is_help=False)
def audit() -> None:
    """The audit log, read from the store directly."""


@audit.command("verify")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_context
def verify_log(context: click.Context, as_json: bool) -> None:
    """Verify every record against the chain and the signed heads; status 6 if one is not as it was.

    Needs the store, the anchor directory, and the cluster's root as its trust.
    """
    from svc.compose.audit_log import verified

    settings = authority_settings(context)
    found = verified(settings, authority_state(settings))
    if not as_json:
        say([found.text])
        return
    said = {
        "records": found.records,
        "head_hash": found.last_hash.hex(),
        "anchor": found.key_id or None,
        "anchored": found.anchored,
    }
    say([document(said)])


@audit.command("show")
@click.argument("decision", metavar="[DECISION_ID]", required=False, type=WORD)
@click.option("--seq", type=click.IntRange(1, 2**63 - 1), help="The record of this number.")
@click.option("--last", type=click.IntRange(1, MOST), help=f"The newest; {LAST} by default.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_context
def show_records(
    context: click.Context, decision: str | None, seq: int | None, last: int | None, as_json: bool
) -> None:
    """Show the records of a decision, one record, or the newest ones, oldest first."""
    from svc.audit import show
    from svc.compose.store_place import store_place

    if sum(each is not None for each in (decision, seq, last)) > 1:
        raise click.UsageError("name one of DECISION_ID, --seq and --last")
    settings = authority_settings(context)

    def look(tx: ITransaction) -> list[dict[str, Json]]:
        rows = _rows(tx.audit, decision, seq, last or LAST)
        names = _names(tx)
        return [show.document(row, tx.audit.personal(row.seq), names) for row in rows]

    found = store_place(settings).look("audit show", look)
    if as_json:
        say(["[" + ",\n ".join(show.as_json(each) for each in found) + "]"])
    elif found:
        say(["\n\n".join(show.as_text(each) for each in found)])
    else:
        hint(["the log is empty"])


def _rows(log: IAuditLog, decision: str | None, seq: int | None, last: int) -> Sequence[ChainRow]:
    if decision is not None:
        rows = log.by_decision(decision)
        if not rows:
            raise NoSuchRow("audit log: no record names this decision")
        return rows
    if seq is None:
        return log.tail(last)
    rows = log.rows(seq, 1)
    if not rows or rows[0].seq != seq:
        raise NoSuchRow(f"audit log: there is no record {seq}")
    return rows


def _names(tx: ITransaction) -> Callable[[str, str], str | None]:
    """What an actor is called today."""

    def name_of(kind: str, id: str) -> str | None:
        if kind == "person":
            person = tx.people.get(id)
            return None if person is None else person.name
        if kind == "node":
            node = tx.nodes.get(id)
            return None if node is None else node.name
        return _local_user(id) if kind == "operator" else None

    return name_of


def _local_user(id: str) -> str | None:
    word, _, number = id.partition(":")
    try:
        return pwd.getpwuid(int(number)).pw_name if word == "local" else None
    except (KeyError, ValueError, OverflowError):
        return None
