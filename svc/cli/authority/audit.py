"""``svc authority audit``: verify the log, prove and export what is in it, look at its records.

All of these read the store directly, so they work with every role stopped and beside a
running Authority; none trusts what the Authority would say of itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import click

from svc.cli.authority.log.erase import request_place
from svc.cli.control import authority_settings, authority_state
from svc.cli.forms import WORD
from svc.cli.groups import Group
from svc.cli.output import document, hint, json_option, print_lines, print_result, write
from svc.errors import AuditBroken, StoreUnavailable

if TYPE_CHECKING:
    from svc.audit.log.covered import CoveredRow
    from svc.audit.log.verify import Verified
    from svc.model.audit.record import Head
    from svc.model.canonical import Json
    from svc.ops.verify.log import OutsideLog

LARGEST = 2**63 - 1


@click.group(cls=Group)
def audit() -> None:
    """Show, verify, export and prove the audit log; list its events."""


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

    Example:
        svc --config authority.toml authority audit verify --anchor heads.jsonl
    """
    from svc.ops.turns import cores

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

    Example:
        svc --config authority.toml authority audit export --after 4711 > export.jsonl
    """
    from svc.audit.log import export, siem
    from svc.ops.turns import cores, uncollected

    if as_json and form != "json":
        raise click.UsageError(f"--json and --format {form}: give only one of them")
    log = _log(context)
    session_of = lru_cache(1024)(log.session)

    def lines_of(entry: CoveredRow) -> Iterator[str]:
        if form == "json":
            return export.json_lines(entry)
        return map(siem.line_of(form), siem.by_request(entry, session_of))

    head, made = log.lines(after, lines_of, personal=personal, jobs=cores())

    def lines() -> Iterator[str]:
        yield from made
        if head.head.tree_size > after and form == "json":
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

    Example:
        svc --config authority.toml authority audit prove 4711 > proof.json
    """
    seq, index = (None, None) if place is None else request_place(place)
    if (seq is None) == (first is None):
        raise click.UsageError("give either SEQ or --from")
    if personal and seq is None:
        raise click.UsageError("--personal: applies only to the proof of a record (SEQ)")
    log = _log(context)
    if seq is not None:
        print_lines([log.inclusion(seq, over, index, personal=personal)])
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

    Example:
        svc --config authority.toml authority audit adopt --reason "disk of db1 lost"
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
