"""``svc authority sessions``: open sessions, and their end."""

from __future__ import annotations

import click

from svc.cli.control import admin
from svc.cli.forms import WORD, reason_option
from svc.cli.groups import Group
from svc.cli.output import json_option, moment, print_list, print_result
from svc.proto.gate.v1 import admin_pb2 as pb

_SHOWN = 12


@click.group(cls=Group)
def sessions() -> None:
    """List and end open sessions."""


_person_option = click.option(
    "--person", type=WORD, metavar="P", help="Sessions of a person, by name or id."
)
_resource_option = click.option(
    "--resource", type=WORD, metavar="ID", help="Sessions to a resource."
)


@sessions.command("list")
@_person_option
@_resource_option
@json_option
@click.pass_context
def list_sessions(
    context: click.Context, person: str | None, resource: str | None, as_json: bool
) -> None:
    """List the open sessions, oldest first.

    STATE is `ending` if an operator ended it and its Proxy has not confirmed that yet, and
    `proxy_away` if its Proxy is not connected to the Authority: if it is killed, the session is
    over; it is listed until the Proxy is back, or for `session.reclaim_secs`.
    """
    request = pb.ListSessionsRequest(person=person or "", resource=resource or "")
    answer = admin(context)("ListSessions", request, pb.ListSessionsResponse)
    rows = [
        [
            row.uid[:_SHOWN],
            row.person or row.person_id,
            row.resource,
            row.kind,
            row.proxy or row.proxy_id,
            moment(row.started_at),
            _state(row),
        ]
        for row in answer.sessions
    ]
    heads = ["SESSION", "PERSON", "RESOURCE", "KIND", "PROXY", "SINCE", "STATE"]
    print_list(as_json, [_session(row) for row in answer.sessions], heads, rows)


@sessions.command("end")
@click.argument("uids", metavar="[SESSION]...", nargs=-1, type=WORD)
@_person_option
@_resource_option
@reason_option
@json_option
@click.pass_context
def end_sessions(
    context: click.Context,
    uids: tuple[str, ...],
    person: str | None,
    resource: str | None,
    reason: str | None,
    as_json: bool,
) -> None:
    """End open sessions: each SESSION, or all of a person or to a resource.

    SESSION is a uid as `sessions list` shows it, or its beginning.  The person is told that an
    operator ended it, and may open another one; to prevent that, disable the person first.

    Example:
        svc --config authority.toml authority sessions list --person ada
        svc --config authority.toml authority sessions end 3f0c5a77 --reason "runaway query"
    """
    if not (uids or person or resource):
        raise click.UsageError("name a SESSION, or give --person or --resource")
    request = pb.EndOpenSessionsRequest(
        sessions=uids, person=person or "", resource=resource or "", note=reason or ""
    )
    answer = admin(context)("EndOpenSessions", request, pb.EndOpenSessionsResponse)
    ended = list(answer.sessions)
    print_result(as_json, {"session_uids": ended}, [f"{len(ended)} session(s) end", *ended])


def _session(row: pb.SessionRow) -> dict[str, object]:
    return {
        "session_uid": row.uid,
        "person": row.person_id,
        "name": row.person or None,
        "resource": row.resource,
        "kind": row.kind,
        "proxy_id": row.proxy_id,
        "decision_id": row.decision_id,
        "started_at": moment(row.started_at),
        "state": _state(row),
    }


def _state(row: pb.SessionRow) -> str:
    if row.ending:
        return "ending"
    return "proxy_away" if row.away else "open"
