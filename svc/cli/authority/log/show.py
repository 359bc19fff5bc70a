"""``svc authority audit show``: look at records."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from svc.cli.authority.log.records import (
    LARGEST,
    LAST,
    MOST,
    AuthorityRecords,
    RecordQuery,
    RecordSource,
    StoreRecords,
)
from svc.cli.control import admin, authority_settings, caller_settings
from svc.cli.forms import WORD
from svc.cli.lane import AdminLane
from svc.cli.output import hint, print_lines
from svc.errors import Malformed
from svc.telemetry.escape import escaped

if TYPE_CHECKING:
    from svc.ops.show import Shown, ShownRecords


@click.command("show")
@click.argument("decision_id", metavar="[DECISION_ID]", required=False, type=WORD)
@click.option(
    "--seq", type=click.IntRange(1, LARGEST), metavar="N", help="The record with this number."
)
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
@click.option(
    "--since", type=WORD, metavar="TIME", help="From 30m, 2h or 7d ago on, or from a UTC time on."
)
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

    DECISION_ID shows every record of one decision: its id, or that of the session that it let open.
    Its beginning is enough: at least 8 of the 32 digits.  Ids of requests in sessions begin with 10
    digits of the Proxy and 12 of the time, so of those 22 or more are needed on a busy Proxy.
    A line says when, who, and whom or what it concerns, by the names they have today.
    A record is shown if it matches every filter given. Records that are missing, altered or
    unreadable are marked; `svc authority audit verify` reports what is wrong.

    Example:
        svc --config authority.toml authority audit show --last 20
        svc --config authority.toml authority audit show 4d9c81e2 --long
        svc --config authority.toml authority audit show --person ada --event session --follow
    """
    from svc.audit.log import show

    given = [word for word in filters.values() if word is not None]
    if (decision_id is not None) + (seq is not None) + (last is not None or bool(given)) > 1:
        raise click.UsageError("give only one of DECISION_ID, --seq, or --last with filters")
    if follow and (decision_id is not None or seq is not None or filters["until"] is not None):
        raise click.UsageError("--follow: cannot be combined with DECISION_ID, --seq or --until")
    most = last or (MOST if filters["since"] is not None else LAST)
    query = RecordQuery(
        decision_id=decision_id,
        seq=seq,
        most=most,
        **_filters(filters, caller_settings(context).plugins.kinds),
    )
    source = _source(context)
    columns = show.Columns()

    def form(shown: Iterable[Shown]) -> list[str]:
        if as_json or is_long:
            return list(map(show.as_json if as_json else show.as_text, shown))
        return columns.lines(shown)

    def first(found: ShownRecords) -> None:
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

    def later(shown: Iterable[Shown]) -> None:
        _say_each(form(shown))

    source.show(query, first, later if follow else None)


def _source(context: click.Context) -> RecordSource:
    """The store where it is at hand, else the Authority."""
    from svc.ops.store import store_place

    way = admin(context)
    if isinstance(way, AdminLane):
        return AuthorityRecords(way)
    return StoreRecords(store_place(authority_settings(context)))


def _filters(filters: Mapping[str, str | None], kinds: Iterable[str]) -> dict[str, Any]:
    """What was typed, with times as seconds.

    Raises:
        click.UsageError: no such time or event.
    """
    from svc.audit.log.selection import check_event, moment_of

    found: dict[str, Any] = dict(filters)
    for name in ("since", "until"):
        text = filters[name]
        try:
            found[name] = None if text is None else moment_of(text, time.time())
        except Malformed as refused:
            raise click.UsageError(f"--{name} {text}: {refused.text}") from None
    event = filters["event"]
    if event is not None:
        try:
            check_event(event, kinds=kinds)
        except Malformed as refused:
            raise click.UsageError(f"--event {escaped(event)}: {refused.text}") from None
    return found


def _say_each(texts: Iterable[str], *, apart: bool = False) -> None:
    """What is asked for, at once; with an empty line between them where they are long."""
    if apart:
        joined = "\n\n".join(texts)
        print_lines([joined] if joined else [])
    else:
        print_lines(texts)
    sys.stdout.flush()
