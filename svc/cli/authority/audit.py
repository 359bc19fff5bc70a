"""``svc authority audit``: verify the log, prove and export what is in it, look at its records.

All read the store directly, so they work with every role stopped and beside a
running Authority; none trusts what the Authority would say of itself.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from svc.cli.authority.erase import request_place
from svc.cli.control import authority_settings, authority_state, run
from svc.cli.forms import WORD
from svc.cli.groups import Group
from svc.cli.output import document, hint, json_option, print_lines, print_result, write
from svc.errors import AuditBroken, Malformed, StoreUnavailable
from svc.telemetry.escape import escaped

if TYPE_CHECKING:
    from svc.audit.log.covered import CoveredRow
    from svc.audit.log.selection import Selection
    from svc.audit.log.verify import Verified
    from svc.interfaces.store import ITransaction
    from svc.model.audit.record import Head
    from svc.model.canonical import Json
    from svc.ops.show import Shown, ShownRecords
    from svc.ops.store import StorePlace
    from svc.ops.verify.log import OutsideLog

LAST = 10
FOLLOW_SECS = 1.0
"""Between two looks at the log."""

MOST = 1000
LARGEST = 2**63 - 1


@click.group(cls=Group)
def audit() -> None:
    """The audit log, read from the store directly."""


@audit.command("verify")
@click.option(
    "--anchor",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Signed heads kept elsewhere (a copy of heads.jsonl or latest); also checked.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1, 64),
    metavar="N",
    help="Number of processes that verify a long log; the number of cores by default.",
)
@json_option
@click.pass_context
def verify_log(
    context: click.Context, anchor: Path | None, jobs: int | None, as_json: bool
) -> None:
    """Verify every record against the chain and the signed heads.

    Exits with status 6 if the log does not verify.  Needs the store, the anchor directory and
    the cluster's root certificate.
    """
    from svc.ops.verify.rows import cores

    try:
        found = _log(context).verified(anchor, cores() if jobs is None else min(jobs, cores()))
    except (AuditBroken, StoreUnavailable) as broken:
        if as_json:
            print_lines([document(_verdict(None, broken))])
        raise
    print_result(as_json, _verdict(found, None), [found.text])


def _verdict(
    found: Verified | None, broken: AuditBroken | StoreUnavailable | None
) -> dict[str, Json]:
    """What verifying found, with the same names whether the log verifies or not."""
    findings: list[Json] = []
    if isinstance(broken, AuditBroken):
        kind, what = broken.kind or broken.reason, broken.what or broken.text
        findings.append({"seq": broken.seq, "kind": kind, "text": what})
    elif broken is not None:
        findings.append({"seq": None, "kind": broken.reason, "text": broken.text})
    verdict: dict[str, Json] = {"verified": found is not None, "findings": findings}
    if found is not None:
        verdict["records"] = found.records
        verdict["last_hash"] = found.last_hash.hex()
        verdict["key_id"] = found.key_id or None
        verdict["anchored"] = found.anchored
    return verdict


@audit.command("export")
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "cef", "splunk-hec"]),
    default="json",
    help="Only json (the default) can be verified with contrib/verify_audit.py.",
)
@click.option(
    "--after",
    type=click.IntRange(0, LARGEST),
    default=0,
    metavar="SEQ",
    help="Start after record SEQ, the last one of the previous export.",
)
@click.option("--personal", is_flag=True, help="Include personal values that are not erased.")
@click.option("--json", "as_json", is_flag=True, help="Same as --format json.")
@click.pass_context
def export_log(
    context: click.Context, form: str, after: int, personal: bool, as_json: bool
) -> None:
    """Write the records that a signed head covers, one per line; in json, the head follows them.

    If each export starts where the previous one ended, no record is left out or repeated.
    """
    from svc.audit.log import export, siem
    from svc.ops.verify.rows import uncollected

    if as_json and form != "json":
        raise click.UsageError(f"--json and --format {form}: give only one of them")
    log = _log(context)
    head, entries = log.entries(after, personal=personal)
    session_of = lru_cache(1024)(log.session)

    def lines_of(entry: CoveredRow) -> Iterator[str]:
        if form == "json":
            return export.json_lines(entry)
        line = siem.cef if form == "cef" else siem.splunk_hec
        return map(line, siem.by_request(entry, session_of))

    def lines() -> Iterator[str]:
        count = 0
        for count, entry in enumerate(entries, 1):  # noqa: B007
            yield from lines_of(entry)
        if count and form == "json":
            yield export.head_line(head)

    with uncollected():
        write(lines())


@audit.command("prove")
@click.argument("place", metavar="[SEQ[.INDEX]]", required=False, type=WORD)
@click.option(
    "--from",
    "first",
    type=click.IntRange(1, LARGEST),
    metavar="M",
    help="Prove that the log of M records is a prefix of the later log.",
)
@click.option(
    "--to",
    "over",
    type=click.IntRange(1, LARGEST),
    metavar="N",
    help="Use the signed head over N records; the newest by default.",
)
@click.option("--personal", is_flag=True, help="Include the record's personal values.")
@click.option("--json", "as_json", is_flag=True, help="The output is JSON in any case.")
@click.pass_context
def prove(
    context: click.Context,
    place: str | None,
    first: int | None,
    over: int | None,
    personal: bool,
    as_json: bool,
) -> None:
    """Write a proof and its signed head, for contrib/verify_audit.py to check offline.

    It proves that record SEQ is in the log or, with --from, that the log has only been appended to.
    SEQ.INDEX is one request of a batch; its proof shows no other request.
    """
    seq, index = (None, None) if place is None else request_place(place)
    if (seq is None) == (first is None):
        raise click.UsageError("give either SEQ or --from")
    if personal and seq is None:
        raise click.UsageError("--personal: applies only to the proof of a record (SEQ)")
    log = _log(context)
    if seq is not None and index is not None:
        print_lines([log.entry_inclusion(seq, index, over, personal=personal)])
    elif seq is not None:
        print_lines([log.inclusion(seq, over, personal=personal)])
    elif first is not None:
        print_lines([log.consistency(first, over)])


@audit.command("adopt")
@click.option("--reason", metavar="TEXT", help="The reason, for the audit log.")
@click.option(
    "--head",
    "heads",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Signed heads kept elsewhere, such as by a witness or a Proxy; may be repeated.",
)
@json_option
@click.pass_context
def adopt(
    context: click.Context, reason: str | None, heads: tuple[Path, ...], as_json: bool
) -> None:
    """Accept the loss of audit records, and continue the log from the last valid one.

    Use it after restoring an older store on purpose (audit_rolled_back), or when records that no
    signed head covers were altered (audit_broken).  Without --reason, the command only shows what
    would be lost.  With --reason, the next start of this Authority records the loss and the
    reason, and continues from the last valid record; Proxies, residents and other Authorities
    accept the change by a signed proof.  If the store changes before then, the start is refused.
    """
    from svc.ops.rewind import ask_to_go_on, find_lost

    settings = authority_settings(context)
    state = authority_state(settings)
    found = find_lost(settings, state, heads)
    lost, common = found.lost, found.common
    form: dict[str, Json] = {
        "audit_seq": found.end.seq,
        "first_missing": found.first_missing,
        "damaged": found.damaged,
        "lost": None if lost is None else _lost(lost.head, lost.hash),
        "anchored": None if common is None else common.head.tree_size,
        "adopt": reason is not None,
    }
    lines = [f"newest record in the store: {found.end.seq}"]
    if lost is not None:
        head = f"{lost.head.tree_size} records, signed at {lost.head.time}, hash {lost.hash.hex()}"
        missing = f"first record that is missing or differs: {found.first_missing}"
        lines += [f"newest signed head: {head}", missing]
    if found.damaged:
        good = found.good.seq
        lines.append(
            f"lost: {found.damaged} records, from {good + 1} to {found.end.seq}: record "
            f"{good + 1} does not verify; they will be removed from the log and kept in a file "
            "in the anchor directory"
        )
    print_result(as_json, form, lines)
    if reason is None:
        hint(["nothing was changed; to continue from here, run this again with --reason TEXT"])
        return
    ask_to_go_on(state, found, reason)
    hint(["this Authority will continue from here at its next start"])


def _lost(head: Head, digest: bytes) -> Json:
    return {"records": head.tree_size, "hash": digest.hex(), "time": head.time}


def _log(context: click.Context) -> OutsideLog:
    from svc.ops.verify.log import outside_log

    settings = authority_settings(context)
    return outside_log(settings, authority_state(settings))


@audit.command("show")
@click.argument("decision_id", metavar="[DECISION_ID]", required=False, type=WORD)
@click.option("--seq", type=click.IntRange(1, LARGEST), help="The record with this number.")
@click.option(
    "--last",
    type=click.IntRange(1, MOST),
    metavar="N",
    help=f"At most the newest N records; {LAST} by default, {MOST} with --since.",
)
@click.option("--person", type=WORD, metavar="P", help="Records of a person, by name or id.")
@click.option("--resource", type=WORD, metavar="ID", help="Records about a resource.")
@click.option(
    "--event", type=WORD, metavar="E", help="One event (session.start) or group (session)."
)
@click.option("--decision", type=WORD, metavar="D", help="allow, deny, or a decision id.")
@click.option(
    "--session", type=WORD, metavar="ID", help="Records of a session; a prefix is enough."
)
@click.option("--since", type=WORD, metavar="TIME", help="From 30m, 2h or 7d ago, or a UTC time.")
@click.option("--until", type=WORD, metavar="TIME", help="Before this time, in the same form.")
@click.option("--long", "is_long", is_flag=True, help="Show every field of a record, one per line.")
@click.option(
    "--follow", "-f", is_flag=True, help="Keep running and show new records as they are added."
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print one JSON document; with --follow, one line per record.",
)
@click.pass_context
def show_records(
    context: click.Context,
    /,
    decision_id: str | None,
    seq: int | None,
    last: int | None,
    is_long: bool,
    follow: bool,
    as_json: bool,
    **filters: str | None,
) -> None:
    """Show the newest records, or those that match the filters, one per line, oldest first.

    A line says when, who, and whom or what it concerns, by the names they have today.
    A record is shown if it matches every filter given. Records that are missing, altered or
    unreadable are marked; `svc authority audit verify` reports what is wrong.
    """
    from svc.audit.log import show
    from svc.ops.show import LogReader
    from svc.ops.store import store_place

    given = [word for word in filters.values() if word is not None]
    if (decision_id is not None) + (seq is not None) + (last is not None or bool(given)) > 1:
        raise click.UsageError("give only one of DECISION_ID, --seq, or --last with filters")
    if follow and (decision_id is not None or seq is not None or filters["until"] is not None):
        raise click.UsageError("--follow: cannot be combined with DECISION_ID, --seq or --until")
    settings = authority_settings(context)
    place = store_place(settings)
    select = _selection(filters, settings.plugins.kinds)
    most = last or (MOST if filters["since"] is not None else LAST)

    def look(tx: ITransaction) -> ShownRecords:
        reading = LogReader(tx)
        if decision_id is not None:
            return reading.decided(decision_id)
        if seq is not None:
            return reading.numbered(seq)
        return reading.newest(select(tx), most)

    columns = show.Columns()

    def form(shown: Iterable[Shown]) -> list[str]:
        if as_json or is_long:
            return list(map(show.as_json if as_json else show.as_text, shown))
        return columns.lines(shown)

    found = place.look("audit show", look)
    if as_json and not follow:
        print_lines(["[" + ",\n ".join(form(found.shown)) + "]"])
    elif as_json or is_long:
        _say_each(form(found.shown), apart=not as_json)
    elif found.shown or follow:
        _say_each(columns.lines(found.shown, heads=True))
    if not found.shown and not as_json and not follow:
        hint(["no matching records" if given else "the log is empty"])
    if found.more and given and last is None:
        hint([f"only the newest {most} are shown; use --last N for more"])
    if any("damaged" in each for each in found.shown):
        hint(["the log is damaged; run: svc authority audit verify"])
    if follow:
        run(lambda reactor: _follow(reactor, place, select, found.end, form))


def _selection(
    filters: Mapping[str, str | None], kinds: Iterable[str]
) -> Callable[[ITransaction], Selection]:
    """What is to be shown, once it is known who a person is."""
    from svc.audit.log.selection import Selection, check_event, moment_of
    from svc.ops.show import persons_called

    times: dict[str, float | None] = {}
    for name in ("since", "until"):
        text = filters[name]
        try:
            times[name] = None if text is None else moment_of(text, time.time())
        except Malformed as refused:
            raise click.UsageError(f"--{name} {text}: {refused.text}") from None
    person, event = filters["person"], filters["event"]
    if event is not None:
        try:
            check_event(event, kinds=kinds)
        except Malformed as refused:
            raise click.UsageError(f"--event {escaped(event)}: {refused.text}") from None

    def select(tx: ITransaction) -> Selection:
        return Selection(
            persons=None if person is None else persons_called(tx, person),
            resource=filters["resource"],
            event=event,
            decision=filters["decision"],
            session=filters["session"],
            since=times["since"],
            until=times["until"],
        )

    return select


async def _follow(
    reactor: Any,
    place: StorePlace,
    select: Callable[[ITransaction], Selection],
    end: int,
    form: Callable[[Iterable[Shown]], Iterable[str]],
) -> None:
    """Go on until interrupted, or until nobody reads any more."""
    from twisted.internet.task import deferLater

    while True:
        found = place.look("audit show", partial(_later, select, end))
        _say_each(form(found.shown))
        if found.end == end:
            await deferLater(reactor, FOLLOW_SECS, lambda: None)
        end = found.end


def _later(select: Callable[[ITransaction], Selection], end: int, tx: ITransaction) -> ShownRecords:
    from svc.ops.show import LogReader

    return LogReader(tx).after(select(tx), end)


def _say_each(texts: Iterable[str], *, apart: bool = False) -> None:
    """What is asked for, at once; with an empty line between them where they are long."""
    if apart:
        joined = "\n\n".join(texts)
        print_lines([joined] if joined else [])
    else:
        print_lines(texts)
    sys.stdout.flush()
