"""``svc request`` and ``svc requests``: access for a while, approved by another person."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from typing import IO, TYPE_CHECKING, Any

import click
from attrs import evolve

from svc.cli import Globals
from svc.cli.access_texts import (
    ask_lines,
    document_lines,
    entry_form,
    text_lines,
    waiting_line,
)
from svc.cli.confirmation import confirm, require_terminal
from svc.cli.control import run
from svc.cli.directory import own_directory_option
from svc.cli.forms import DURATION, parameter_pairs
from svc.cli.groups import Group
from svc.cli.output import hint, json_option, moment, print_list, print_result
from svc.cli.person import able_person, with_reactor
from svc.errors import Fault, Malformed, SvcError
from svc.model.principal import Role
from svc.telemetry.escape import escaped

if TYPE_CHECKING:
    from svc.client.access import AccessClient
    from svc.messages.access import AccessEntry, DeniedRequest
    from svc.model.policy.requested import AccessAsk

    _Asked = Callable[[Callable[[AccessClient], Awaitable[Any]]], Awaitable[Any]]

_HOUR = 3600


@click.command()
@click.argument("resource", required=False, default="")
@click.option(
    "--action",
    default="",
    metavar="A",
    help="The action, such as dbQuery; by default, opening a session.",
)
@click.option(
    "--decision",
    default="",
    metavar="ID",
    help="Ask for exactly the request that this decision denied; the denial shows its id.",
)
@click.option(
    "--statement",
    metavar="TEXT",
    help="Ask for one request of exactly this text; give --action and the parameters, too.",
)
@click.option(
    "--statement-file",
    type=click.File("rb"),
    metavar="FILE",
    help="As --statement, with all bytes of FILE; - is stdin.",
)
@click.option(
    "--reason", default="", metavar="TEXT", help="Why you need it; the approver reads it."
)
@click.option(
    "--for",
    "secs",
    type=DURATION,
    default=_HOUR,
    metavar="TIME",
    help="How long the access lasts from its approval on, such as 30m or 2h; 1h by default.",
)
@click.option(
    "--uses",
    type=click.IntRange(1, 1000),
    metavar="N",
    help="How many sessions it is good for; by default any number, or one use of an exact text.",
)
@click.option(
    "--parameter",
    "parameters",
    multiple=True,
    metavar="NAME=VALUE",
    help="Only for sessions with this parameter; may be repeated.",
)
@click.option(
    "--yes", is_flag=True, help="Do not ask for confirmation; what --decision asks for is printed."
)
@own_directory_option
@json_option
@click.pass_obj
def request(
    globals_: Globals,
    resource: str,
    action: str,
    decision: str,
    statement: str | None,
    statement_file: IO[bytes] | None,
    reason: str,
    secs: int,
    uses: int | None,
    parameters: tuple[str, ...],
    yes: bool,
    as_json: bool,
) -> None:
    """Ask for access to RESOURCE; another person has to approve it.

    With --decision, --statement or --statement-file it is for one request of exactly that text.

    Example:
        svc request payroll --reason "incident 4711" --for 2h
        svc request --decision ID
    """
    from svc.model.policy.requested import AccessAsk

    text = _exact(statement, statement_file)
    ask = AccessAsk(
        resource=resource,
        action=action,
        parameters=parameter_pairs(parameters),
        reason=reason,
        secs=secs,
        uses=1 if uses is None and (text or decision) else uses,
        text=text,
    )
    if decision and (resource or action or parameters or text):
        raise click.UsageError("--decision says the resource and all else by itself")
    if not decision and not resource:
        raise click.UsageError("name a RESOURCE, or the --decision of a denial")
    if decision and not yes:
        require_terminal("--yes")

    async def asking(asked: _Asked) -> AccessEntry:
        wanted = ask
        if decision:
            wanted = of_denied(ask, await asked(lambda client: client.denied(decision)))
            hint(ask_lines(wanted))
            if not yes:
                # Nothing is connected meanwhile, as for an approver.
                confirm("Ask for this?")
        elif ask.text:
            hint(text_lines(ask.text))
        entry: AccessEntry = await asked(lambda client: client.ask(wanted))
        return entry

    entry = _run(globals_, asking)
    request_id, until = _id(entry), moment(entry.ends_at)
    print_result(
        as_json,
        entry_form(entry),
        [f"request {request_id}: waits for another person's approval until {until}"],
        [f"svc requests show {request_id[:12]}  # what became of it"],
    )


def _exact(statement: str | None, statement_file: IO[bytes] | None) -> bytes:
    """The exact text that is asked for; empty for none."""
    from svc.model.policy.requested import MAX_TEXT_BYTES, check_text

    if statement is None and statement_file is None:
        return b""
    if statement is not None and statement_file is not None:
        raise click.UsageError("--statement and --statement-file are two ways to say one thing")
    if statement_file is not None:
        text = statement_file.read(MAX_TEXT_BYTES + 1)
    else:
        text = os.fsencode(statement or "")
    if not text:
        raise click.UsageError("the text is empty")
    check_text(text)
    return text


def of_denied(ask: AccessAsk, denied: DeniedRequest) -> AccessAsk:
    """What is asked for, with all that the Proxy says of the denied request.

    Raises:
        Malformed: it has no text, so the request would be for every text.
    """
    if not denied.text:
        raise Malformed("the Proxy answered with a denied request without its text")
    return evolve(
        ask,
        resource=denied.resource,
        action=denied.action,
        parameters=denied.parameters,
        text=denied.text,
    )


@click.group(cls=Group)
def requests() -> None:
    """List and withdraw your requests for access; approve or deny those of others."""


@requests.command("list")
@click.option("--to-decide", is_flag=True, help="Those of others that you may decide about.")
@own_directory_option
@json_option
@click.pass_obj
def list_requests(globals_: Globals, to_decide: bool, as_json: bool) -> None:
    """List your requests; with --to-decide those of others that wait for you.

    Requests that were denied or used stay in your list until they expire.  If your list is empty, a
    line on stderr says how many requests of others wait for you.
    """
    waiting: Sequence[AccessEntry] = ()

    async def listing(asked: _Asked) -> Sequence[AccessEntry]:
        nonlocal waiting
        found: Sequence[AccessEntry] = await asked(lambda client: client.list(to_decide))
        if not (found or to_decide or as_json):
            # Who only decides has none of their own, and would think that there is nothing.
            waiting = await asked(lambda client: client.list(to_decide=True))
        return found

    forms = [entry_form(one) for one in _run(globals_, listing)]
    rows = [
        (
            str(one["id"])[:12],
            one["state"],
            one["person_name"],
            one["resource"],
            one["action"],
            one["expires_at"],
            one["asked_reason"],
        )
        for one in forms
    ]
    heads = ("ID", "STATE", "PERSON", "RESOURCE", "ACTION", "UNTIL", "REASON")
    print_list(as_json, forms, heads, rows)
    if waiting:
        hint([waiting_line(len(waiting))])


@requests.command("show")
@click.argument("request_id")
@own_directory_option
@json_option
@click.pass_obj
def show_request(globals_: Globals, request_id: str, as_json: bool) -> None:
    """Show exactly what an approval of REQUEST_ID allows, and what became of it."""
    entry = _called(globals_, lambda client: client.show(request_id))
    print_result(as_json, entry_form(entry), document_lines(entry))


@requests.command("approve")
@click.argument("request_id")
@click.option(
    "--yes", is_flag=True, help="Do not ask for confirmation; what is approved is printed."
)
@own_directory_option
@json_option
@click.pass_obj
def approve_request(globals_: Globals, request_id: str, yes: bool, as_json: bool) -> None:
    """Approve REQUEST_ID of another person, with your signature over what is shown.

    Example:
        svc requests list --to-decide
        svc requests approve ID
    """
    _decide(globals_, request_id, is_approval=True, yes=yes, as_json=as_json)


@requests.command("deny")
@click.argument("request_id")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation; what is denied is printed.")
@own_directory_option
@json_option
@click.pass_obj
def deny_request(globals_: Globals, request_id: str, yes: bool, as_json: bool) -> None:
    """Deny REQUEST_ID of another person."""
    _decide(globals_, request_id, is_approval=False, yes=yes, as_json=as_json)


@requests.command("withdraw")
@click.argument("request_id")
@own_directory_option
@json_option
@click.pass_obj
def withdraw_request(globals_: Globals, request_id: str, as_json: bool) -> None:
    """Take back your own REQUEST_ID, or give up what was approved."""
    entry = _called(globals_, lambda client: client.withdraw(request_id))
    print_result(as_json, entry_form(entry), [f"request {_id(entry)}: withdrawn"])


def _decide(
    globals_: Globals, request_id: str, *, is_approval: bool, yes: bool, as_json: bool
) -> None:
    """Show, ask, sign: what is signed is what was shown."""
    from svc.model.policy.approval import ApprovalDecision

    decision = ApprovalDecision.APPROVE if is_approval else ApprovalDecision.DENY
    question = f"{decision.value.capitalize()} this request?"
    if not yes:
        require_terminal("--yes")

    async def deciding(asked: _Asked) -> AccessEntry:
        shown = await asked(lambda client: client.show(request_id))
        if not str(shown.terms.get("id")).startswith(request_id):
            raise Malformed("the Proxy answered with another request")
        hint(document_lines(shown))
        if not yes:
            # Nothing is connected meanwhile, so whoever reads may take their time.
            confirm(question)
        decided: AccessEntry = await asked(lambda client: client.decide(shown, decision))
        return decided

    entry = _run(globals_, deciding)
    until = f" until {moment(entry.ends_at)}" if is_approval else ""
    print_result(as_json, entry_form(entry), [f"request {_id(entry)}: {entry.state}{until}"])


def _id(entry: AccessEntry) -> str:
    return escaped(str(entry.terms.get("id", "")))


def _called(globals_: Globals, call: Callable[[AccessClient], Awaitable[Any]]) -> Any:
    """The answer to one call."""
    return _run(globals_, lambda asked: asked(call))


def _run(globals_: Globals, work: Callable[[_Asked], Awaitable[Any]]) -> Any:
    """What *work* makes; each call that it makes has a connection of its own."""
    from svc.compose.access import access_client

    side = able_person(globals_)
    if side.identity.principal.role is Role.AGENT:
        raise SvcError(
            "an agent cannot ask for access or decide about it: only people can; have an operator "
            "permit it to the agent in the policy, or let the agent act for a person who has "
            "access (svc authority agents add NAME --owner OWNER --for PERSON)",
            reason="agent_cannot_ask",
            fault=Fault.DENIED,
        )

    async def working(reactor: Any) -> Any:
        person = with_reactor(side, reactor)

        async def asked(call: Callable[[AccessClient], Awaitable[Any]]) -> Any:
            channel = await person.connect()
            try:
                client = access_client(person.identity, person.runtime, lambda: channel)
                return await call(client)
            finally:
                await channel.close()

        return await work(asked)

    return run(working)
