"""The person's commands: join, up, status, resources, proxy-ssh, why.

stdout carries what was asked for and nothing else; what is meant for the
person's eyes beside it goes to stderr.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import asdict, evolve

from svc.cli import Globals
from svc.cli.control import run
from svc.cli.groups import Group
from svc.cli.output import hint, json_option, pairs, table, tell
from svc.cli.roles import Running, refused
from svc.errors import SvcError
from svc.telemetry.escape import escaped

if TYPE_CHECKING:
    from svc.client.sessions import Session
    from svc.compose.client import PersonSide
    from svc.compose.runtime import Runtime

_ASK_SECS = 20.0
_MAX_TOKEN = 4096
_NOT_TOLD = "nothing can be told of this decision: it is unknown, or not yours to ask about"


@click.command()
@click.option(
    "--proxy",
    "proxies",
    metavar="HOST:PORT",
    multiple=True,
    required=True,
    help="A Proxy of the cluster; may be given more than once.",
)
@click.option(
    "--ca-pin",
    "pin",
    metavar="PIN",
    required=True,
    help="SHA-256 of the cluster root, as the operator gave it.",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File with the join token; else it is read from stdin or asked for.",
)
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where identity and configuration go; ~/.svc if not given.",
)
@click.option(
    "--authority", metavar="HOST:PORT", help="Authority's join listener, to join without a Proxy."
)
@json_option
@click.pass_obj
def join(
    globals_: Globals,
    proxies: tuple[str, ...],
    pin: str,
    token_file: Path | None,
    directory: Path | None,
    authority: str | None,
    as_json: bool,
) -> None:
    """Exchange a one-use token for an identity of yours on this machine."""
    from svc.compose.client import home
    from svc.compose.personal import check_pin, parse_addresses, prepare, take_identity

    addresses = parse_addresses("--proxy", proxies)
    direct = parse_addresses("--authority", (authority,))[0] if authority else None
    check_pin(pin)
    token = _token(token_file)
    place = prepare((directory or home(globals_.environ)).absolute())
    joined = run(
        lambda reactor: take_identity(
            _runtime(globals_, reactor), place, addresses, direct, pin, token
        )
    )
    option = "" if directory is None else f" --config {joined.config}"
    said = {"cluster": joined.cluster, "name": joined.name, "config": str(joined.config)}
    tell(
        as_json,
        said,
        [f"joined {joined.cluster} as {escaped(joined.name)}"],
        [
            f"svc{option} up              # local endpoints of all you may use",
            f"svc{option} resources list  # what that is",
            f'ssh -o ProxyCommand="svc{option} proxy-ssh %h" NAME',
        ],
    )


def _token(token_file: Path | None) -> Any:
    """The token, from a file, stdin or the terminal; never from the command line (rule R5)."""
    from svc.compose.joining import read_token
    from svc.model.token import parse_token

    if token_file is not None:
        return read_token(token_file)
    if sys.stdin.isatty():
        return parse_token(click.prompt("Join token", hide_input=True, err=True))
    return parse_token(sys.stdin.read(_MAX_TOKEN))


@click.command()
@click.pass_obj
def up(globals_: Globals) -> int:
    """Keep a local endpoint for every resource you may use, until interrupted."""
    from twisted.internet import reactor

    from svc.compose.client import client_settings, make_client
    from svc.telemetry.filter import parse_filter
    from svc.telemetry.logs import begin_logging

    lines = begin_logging(globals_.environ)
    log_filter, profile = parse_filter(None), None
    try:
        log_filter = parse_filter(globals_.environ.get("RUST_LOG"))
        settings = client_settings(globals_.config, globals_.environ)
        profile = settings.profile
        lines.settle(log_filter, profile)
        client = make_client(_runtime(globals_, reactor), settings)
    except SvcError as refusal:
        lines.settle(log_filter, profile)
        return refused(lines, refusal)
    return Running(reactor, client, lines).run()


@click.command()
@click.option("--refresh", is_flag=True, help="Ask the Proxy anew first.")
@click.option("--explain", is_flag=True, help="Say why things are as they are.")
@json_option
@click.pass_obj
def status(globals_: Globals, refresh: bool, explain: bool, as_json: bool) -> None:
    """Show your identity, the Proxy connection, and what was refused."""
    from svc.client.status import identity_status

    side = _person(globals_)
    told = _ask(side, refresh) or {"running": False, **identity_status(side.identity)}
    tell(as_json, told, [*pairs(_facts(told)), *(_reasons(told) if explain else ())])


def _facts(told: dict[str, Any]) -> list[tuple[str, object]]:
    certificate = told["certificate"]
    left = "expired" if certificate["seconds_left"] <= 0 else f"until {certificate['not_after']}"
    facts: list[tuple[str, object]] = [
        ("cluster", told["cluster"]),
        ("person", told["person"]),
        ("certificate", left),
        ("resident", "running" if told["running"] else "not running (svc up)"),
    ]
    if told["running"]:
        proxy = told["proxy"]
        facts += [
            ("proxy", proxy["address"] if proxy["connected"] else "not connected"),
            ("resources", len(told["endpoints"])),
            ("sessions", told["sessions"]),
            ("refused", len(told["refused"])),
        ]
        audit = told.get("audit")
        if audit and audit["records"]:
            facts.append(("audit log", f"{audit['records']} records at {audit['time']}"))
    return facts


def _reasons(told: dict[str, Any]) -> list[str]:
    """Why a Proxy is not connected, endpoints are incomplete, sessions were refused."""
    lines = []
    if told["certificate"]["seconds_left"] <= 0:
        lines.append("certificate: run `svc join` with a new token")
    if not told["running"]:
        return lines
    if told["proxy"]["problem"]:
        lines.append(f"proxy: {escaped(told['proxy']['problem'])}")
    if told.get("audit", {}).get("problem"):
        lines.append(f"audit log: {escaped(told['audit']['problem'])}")
    for endpoint in told["endpoints"]:
        if endpoint["problem"]:
            lines.append(f"{escaped(endpoint['resource'])}: {escaped(endpoint['problem'])}")
        elif not endpoint["served"]:
            lines.append(f"{escaped(endpoint['resource'])}: no Connector serves it now")
    for one in told["refused"]:
        decision = f", decision {one['decision_id']}" if one["decision_id"] else ""
        policies = f", policies {','.join(one['policies'])}" if one["policies"] else ""
        said = f"{one['at']} {one['resource']}: {one['text']} ({one['reason']}{decision}{policies})"
        often = "" if one["count"] == 1 else f"; {one['count']} times since {one['first_at']}"
        lines.append(escaped(f"{said}{often}"))
    return lines


@click.group(cls=Group, no_args_is_help=True)
def resources() -> None:
    """What you may use."""


@resources.command("list")
@json_option
@click.pass_obj
def list_resources(globals_: Globals, as_json: bool) -> None:
    """List the resources you may use, with their local endpoints."""
    side = _person(globals_)
    told = _ask(side, refresh=False)
    if told is None:
        endpoints = run(lambda reactor: _listed(_with(side, reactor)))
        hint(["the resident is not running: there are no local addresses (svc up)"])
    else:
        endpoints = told["endpoints"]
    rows = [
        (one["resource"], one["kind"], one["address"], "yes" if one["served"] else "no",
         one["problem"])
        for one in endpoints
    ]  # fmt: skip
    tell(as_json, endpoints, table(("NAME", "KIND", "ADDRESS", "SERVED", "PROBLEM"), rows))


async def _listed(side: PersonSide) -> list[dict[str, Any]]:
    from svc.client.proxy_link import list_once
    from svc.client.resident import Endpoint

    channel = await side.connect()
    try:
        seen = await list_once(channel, side.runtime.reactor)
    finally:
        await channel.close()
    return [Endpoint(one.id, one.kind, one.served).public for _, one in sorted(seen.items())]


@click.command()
@click.argument("decision_id")
@json_option
@click.pass_obj
def why(globals_: Globals, decision_id: str, as_json: bool) -> int:
    """Explain a decision that was made about you."""
    from svc.model.ids import is_random_id

    if not is_random_id(decision_id):
        raise click.UsageError("DECISION_ID is 32 hex digits, as a refusal names it")
    side = _person(globals_)
    told = run(lambda reactor: _why(_with(side, reactor), decision_id))
    if not told.explained:
        hint([_NOT_TOLD])
        return 1
    said = asdict(told, filter=lambda field, value: field.name != "explained")
    tell(
        as_json,
        said,
        pairs(
            [
                ("decision", told.decision),
                ("reason", told.reason),
                ("policies", told.policies),
                ("action", told.action),
                ("resource", told.resource),
                ("policy version", told.policy_version),
                ("time", told.time),
                *((f"says {name}", text) for name, text in sorted(told.why.items())),
            ]
        ),
    )
    return 0


async def _why(side: PersonSide, decision_id: str) -> Any:
    channel = await side.connect()
    try:
        return await side.dialer(lambda: channel).why(decision_id)
    finally:
        await channel.close()


@click.command("proxy-ssh")
@click.argument("name")
@click.option("--kind", default="ssh", show_default=True, help="The kind of the resource.")
@click.option("--user", default="", metavar="NAME", help="The user at the target (%r in ssh).")
@click.pass_obj
def proxy_ssh(globals_: Globals, name: str, kind: str, user: str) -> int:
    """Carry one session on stdin and stdout: an ssh ProxyCommand."""
    from svc.client.refused import said

    side = _person(globals_)
    known = side.kinds.by_name.get(kind)
    if known is None:
        raise click.UsageError(f"--kind {escaped(kind)}: not in use here (plugins.kinds)")
    taken, given = _take_stdio()
    try:
        return run(lambda reactor: _carried(_with(side, reactor), name, known, user, taken))
    except SvcError as refusal:
        hint([f"svc: {escaped(said(name, refusal))}"])
        return 1
    finally:
        for terminal in given:
            os.set_blocking(terminal, True)


async def _carried(
    side: PersonSide, name: str, kind: Any, user: str, taken: tuple[int, int]
) -> int:
    from svc.client.sessions import Wish
    from svc.client.stdio import Pipes, carry
    from svc.service import BackgroundTasks

    channel, tasks = await side.connect(), BackgroundTasks()
    session = side.dialer(lambda: channel, tasks).endpoint(Wish(name, kind, user))
    try:
        ended = await carry(session, Pipes(side.runtime.reactor, *taken), _notice)
    except SvcError as refusal:
        found = await _kind_of(side, channel, name)
        if found in ("", kind.name):
            raise
        raise SvcError(
            f"{name}: is a {found} resource; run this with --kind {found}",
            reason=refusal.reason, fault=refusal.fault, details=refusal.details,
        ) from None  # fmt: skip
    await tasks.stopService()
    await channel.close()
    if not ended.is_clean:
        decision = escaped(session.decision_id)
        hint([f"svc: {escaped(name)}: the session was cut; decision {decision}"])
    return 0 if ended.is_clean else 1


async def _kind_of(side: PersonSide, channel: Any, name: str) -> str:
    """The kind of a resource that may be viewed; empty where that is not known."""
    from svc.client.proxy_link import list_once

    try:
        seen = await list_once(channel, side.runtime.reactor)
    except SvcError:
        return ""
    return seen[name].kind if name in seen else ""


def _notice(session: Session) -> None:
    """The session notice; on stderr, where it spoils no transfer (U-PHA-27)."""
    resource = escaped(session.wish.resource)
    hint([f"svc: {resource}: session open, decision {escaped(session.decision_id)}"])


def _take_stdio() -> tuple[tuple[int, int], list[int]]:
    """Make stdin and stdout the session's alone, so that nothing else can be written there.

    Returns:
        The two descriptors, and what is to be made blocking again at the end:
        terminals, which the shell goes on using.
    """
    taken = os.dup(0), os.dup(1)
    given = [os.dup(each) for each in taken if os.isatty(each)]
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.close(nothing)
    return taken, given


def _runtime(globals_: Globals, reactor: Any) -> Runtime:
    from svc.compose.runtime import Runtime

    if reactor is not None:
        # A stepped host clock moves no timer (D3): before anything is scheduled.
        reactor.seconds = time.monotonic
    return Runtime(reactor, time.time, os.urandom, globals_.environ)


def _person(globals_: Globals) -> PersonSide:
    """The person's side, refused before anything runs; it has no reactor yet."""
    from svc.compose.client import client_settings, load_person

    return load_person(_runtime(globals_, None), client_settings(globals_.config, globals_.environ))


def _with(side: PersonSide, reactor: Any) -> PersonSide:
    return evolve(side, runtime=evolve(side.runtime, reactor=reactor))


def _ask(side: PersonSide, refresh: bool) -> dict[str, Any] | None:
    from svc.client.control import ask_resident

    return ask_resident(side.run_directory, {"ask": "status", "refresh": refresh}, _ASK_SECS)


__all__ = ["join", "proxy_ssh", "resources", "status", "up", "why"]
