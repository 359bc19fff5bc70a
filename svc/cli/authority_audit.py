"""``svc authority audit``: verify the log, prove and export what is in it, look at its records.

All read the store directly, so they work with every role stopped and beside a
running Authority; none trusts what the Authority would say of itself.
"""

from __future__ import annotations

import pwd
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from svc.cli.control import authority_settings, authority_state
from svc.cli.forms import WORD
from svc.cli.output import document, hint, say, write
from svc.errors import AuditBroken, NoSuchRow

if TYPE_CHECKING:
    from svc.audit.verify import Verified
    from svc.compose.audit_log import OutsideLog
    from svc.interfaces.facets import IAuditLog
    from svc.interfaces.store import ITransaction
    from svc.model.canonical import Json
    from svc.model.ledger import ChainRow, PersonalValue

LAST = 10
MOST = 1000
LARGEST = 2**63 - 1


@click.group(no_args_is_help=False)
def audit() -> None:
    """The audit log, read from the store directly."""


@audit.command("verify")
@click.option(
    "--anchor",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Signed heads kept elsewhere (a copy of heads.jsonl or latest); checked besides our own.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1, 64),
    metavar="N",
    help="Processes that check a long log; as many as there are cores by default.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_context
def verify_log(
    context: click.Context, anchor: Path | None, jobs: int | None, as_json: bool
) -> None:
    """Verify every record against the chain and the signed heads; status 6 if one was altered.

    Needs the store, the anchor directory, and the cluster's root as its trust.
    """
    from svc.compose.audit_rows import cores

    try:
        found = _log(context).verified(anchor, cores() if jobs is None else min(jobs, cores()))
    except AuditBroken as broken:
        if as_json:
            say([document(_verdict(None, broken))])
        raise
    say([document(_verdict(found, None))] if as_json else [found.text])


def _verdict(found: Verified | None, broken: AuditBroken | None) -> dict[str, Json]:
    """What verifying found, with the same names whether the log verifies or not."""
    findings: list[Json] = []
    if broken is not None:
        kind, what = broken.kind or broken.reason, broken.what or broken.text
        findings.append({"seq": broken.seq, "kind": kind, "text": what})
    said: dict[str, Json] = {"verified": found is not None, "findings": findings}
    if found is not None:
        said["records"] = found.records
        said["head_hash"] = found.last_hash.hex()
        said["anchor"] = found.key_id or None
        said["anchored"] = found.anchored
    return said


@audit.command("export")
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "cef", "splunk-hec"]),
    default="json",
    help="json (the default) can be verified by contrib/verify_audit.py; the others are copies.",
)
@click.option(
    "--after",
    type=click.IntRange(0, LARGEST),
    default=0,
    metavar="SEQ",
    help="Begin after the record SEQ: the last one that was exported before.",
)
@click.option("--personal", is_flag=True, help="With the personal values that are not erased.")
@click.pass_context
def export_log(context: click.Context, form: str, after: int, personal: bool) -> None:
    """Write the records that a signed head covers, a line each, and in json that head at the end.

    No record is left out or comes twice when each export begins where the last one ended.
    """
    from svc.audit import export, siem

    forms = {"json": export.json_line, "cef": siem.cef, "splunk-hec": siem.splunk_hec}
    line = forms[form]
    head, entries = _log(context).entries(after, personal=personal)

    def lines() -> Iterator[str]:
        count = 0
        for count, entry in enumerate(entries, 1):  # noqa: B007
            yield line(entry)
        if count and form == "json":
            yield export.head_line(head)

    write(lines())


@audit.command("prove")
@click.argument("seq", metavar="[SEQ]", required=False, type=click.IntRange(1, LARGEST))
@click.option(
    "--from",
    "first",
    type=click.IntRange(1, LARGEST),
    metavar="M",
    help="Prove that the log of M records is the beginning of the later one.",
)
@click.option(
    "--to",
    "over",
    type=click.IntRange(1, LARGEST),
    metavar="N",
    help="Under the signed head over N records; the newest by default.",
)
@click.option("--personal", is_flag=True, help="With the record's personal values.")
@click.pass_context
def prove(
    context: click.Context, seq: int | None, first: int | None, over: int | None, personal: bool
) -> None:
    """Write a proof, with its signed head, that contrib/verify_audit.py checks without us.

    It shows that the record SEQ is in the log, or with --from that the log has only grown.
    """
    if (seq is None) == (first is None):
        raise click.UsageError("name one of SEQ and --from")
    if personal and seq is None:
        raise click.UsageError("--personal: only a proof of a record has personal values")
    log = _log(context)
    if seq is not None:
        say([log.inclusion(seq, over, personal=personal)])
    elif first is not None:
        say([log.consistency(first, over)])


@audit.command("adopt")
@click.option("--reason", metavar="TEXT", help="Why; it is put on record. Without it: only look.")
@click.option(
    "--head",
    "heads",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Signed heads that others keep, as a witness or a Proxy does; may be given again.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_context
def adopt(
    context: click.Context, reason: str | None, heads: tuple[Path, ...], as_json: bool
) -> None:
    """Go on from an older store that was put back on purpose (audit_rolled_back).

    Without --reason it only shows what is lost.  With it the next start of this Authority puts a
    record on the log that names both heads and the reason, and goes on from there; Proxies,
    residents and other Authorities take that over by the record's signed proof.  Should the
    store change before, the start is refused.
    """
    from svc.compose.restoring import ask_to_go_on, find_lost

    settings = authority_settings(context)
    state = authority_state(settings)
    found = find_lost(settings, state, heads)
    lost, common = found.lost.head, found.common
    if as_json:
        form: dict[str, Json] = {
            "end": found.end.seq,
            "first_missing": found.first_missing,
            "lost": {
                "records": lost.tree_size,
                "hash": found.lost.hash.hex(),
                "time": lost.time,
            },
            "head": None if common is None else common.head.tree_size,
            "adopt": reason is not None,
        }
        say([document(form)])
    else:
        head = f"over {lost.tree_size} records of {lost.time}, hash {found.lost.hash.hex()}"
        missing = f"the first record that is missing or another one: {found.first_missing}"
        say([f"the store ends at record {found.end.seq}", f"lost: a head {head}", missing])
    if reason is None:
        hint(["nothing was changed; go on from here with --reason TEXT"])
        return
    ask_to_go_on(state, found, reason)
    hint(["the next start of this Authority goes on from here"])


def _log(context: click.Context) -> OutsideLog:
    from svc.compose.audit_log import outside_log

    settings = authority_settings(context)
    return outside_log(settings, authority_state(settings))


@audit.command("show")
@click.argument("decision", metavar="[DECISION_ID]", required=False, type=WORD)
@click.option("--seq", type=click.IntRange(1, LARGEST), help="The record of this number.")
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
        return [show.document(row, _personal(tx.audit, row.seq), names) for row in rows]

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


def _personal(log: IAuditLog, seq: int) -> Sequence[PersonalValue]:
    return log.personal(seq, seq).get(seq, ())


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
