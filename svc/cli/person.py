"""The person's commands but for joining and asking: up, status, resources, proxy-ssh.

stdout carries what was asked for and nothing else; what is meant for the
person's eyes beside it goes to stderr.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click
from attrs import evolve

from svc.cli import Globals
from svc.cli.control import run
from svc.cli.directory import own_directory_option
from svc.cli.forms import parameter_pairs
from svc.cli.groups import Group
from svc.cli.join import runtime
from svc.cli.output import hint, json_option, pairs, print_result, table, with_nulls
from svc.cli.person_texts import (
    able,
    another_identity,
    facts,
    reasons,
    still_as,
    with_problem,
    with_unserved,
)
from svc.cli.roles import Running, refused_start
from svc.client.own_options import options_elsewhere, own_options, with_options
from svc.errors import SvcError
from svc.telemetry.escape import escaped

if TYPE_CHECKING:
    from svc.client.sessions import ClientSession, SessionIntent
    from svc.compose.person import PersonSide
    from svc.config import RoleSettings

_ASK_SECS = 20.0


@click.command()
@own_directory_option
@click.pass_obj
def up(globals_: Globals) -> int:
    """Provide a local endpoint for every resource you may use, until interrupted."""
    from svc.cli.reactor import process_reactor
    from svc.compose.client import make_client
    from svc.compose.person import client_settings
    from svc.compose.signals import stop_on_hangup
    from svc.telemetry.filter import parse_filter
    from svc.telemetry.logs import begin_logging

    lines = begin_logging(globals_.environ)
    reactor = process_reactor()
    log_filter, profile = parse_filter(None), None
    try:
        log_filter = parse_filter(globals_.environ.get("RUST_LOG"))
        settings = client_settings(globals_.config, globals_.environ)
        profile = settings.profile
        lines.settle(log_filter, profile)
        client = make_client(runtime(globals_, reactor), settings)
    except SvcError as refusal:
        lines.settle(log_filter, profile)
        return refused_start(lines, refusal, globals_.environ)
    stop_on_hangup(reactor)
    if sys.stderr.isatty():
        listing = f"svc resources list{options_elsewhere(settings.path, globals_.environ)}"
        hint([f"leave this running; in another terminal, type: {listing}; Ctrl-C ends it"])
    return Running(reactor, lines).run(client)


@click.command()
@click.option(
    "--refresh",
    is_flag=True,
    help="Have `svc up` query the Proxy first instead of showing the cached state.",
)
@click.option(
    "--explain",
    is_flag=True,
    help="Show the cause of each problem, refused request and ended session.",
)
@own_directory_option
@json_option
@click.pass_obj
def status(globals_: Globals, refresh: bool, explain: bool, as_json: bool) -> int:
    """Show your identity, the Proxy connection, and recent refusals and ended sessions.

    While `svc up` does not run, this asks a Proxy, for at most 5 seconds each, whether it accepts
    you.  Status 1 if your certificate is not valid now: it has expired, or this machine's clock is
    wrong; with --refresh also if no Proxy is connected or no session can be opened now.
    """
    from svc.client.own_certificate import identity_status
    from svc.client.signin import SignInFile

    side = _person(globals_)
    own = identity_status(side.identity, SignInFile(side.state).renew_until(), side.name)
    problem = own["certificate"]["problem"]
    told, another = _own_and_another(side, refresh and not problem)
    told = {**(_told_by_proxy(side, problem) if told is None else told), **own}
    told["resident"] = another
    lines, options = pairs(facts(told)), own_options(globals_.config)
    lines += reasons(told) if explain else ()
    print_result(as_json, with_nulls(told), [with_options(line, options) for line in lines])
    if problem:
        hint([f"svc: {problem}"])
    return 1 if problem or (refresh and not able(told)) else 0


def _told_by_proxy(side: PersonSide, problem: str) -> dict[str, Any]:
    """What can be known without a resident; nobody is asked with a certificate that is not good."""
    from svc.client.ask_proxy import NOT_ASKED, ask_proxies

    if problem:
        return {"running": False, **NOT_ASKED}
    config = side.settings.path
    told = run(lambda reactor: ask_proxies(with_reactor(side, reactor).ways, reactor, config))
    return {"running": False, **told}


@click.group(cls=Group)
def resources() -> None:
    """List the resources you may use."""


@resources.command("list")
@own_directory_option
@json_option
@click.pass_obj
def list_resources(globals_: Globals, as_json: bool) -> None:
    """List the resources you may use, with their local endpoints."""
    side = able_person(globals_, kinds=None)
    told = _ask(side, refresh=False)
    if told is None:
        endpoints = with_unserved(run(lambda reactor: _listed(with_reactor(side, reactor))))
        up = f"svc up{options_elsewhere(side.settings.path, globals_.environ)}"
        hint([f"no local addresses: start `svc up` in another terminal: {up}"])
    else:
        why = [one["text"] for one in told["no_new_sessions"]]
        endpoints = with_unserved(with_problem(told["endpoints"], why))
        hint([f"svc: no new sessions: {text}" for text in why])
    rows = [
        (
            one["resource"],
            one["kind"],
            one["address"],
            "yes" if one["served"] else "no",
            one["problem"],
        )
        for one in endpoints
    ]
    print_result(
        as_json,
        with_nulls(endpoints),
        table(("NAME", "KIND", "ADDRESS", "SERVED", "PROBLEM"), rows),
    )


async def _listed(side: PersonSide) -> list[dict[str, Any]]:
    from svc.client.link import list_once
    from svc.client.resident.endpoint import Endpoint, not_enabled

    channel = await side.connect()
    try:
        seen = await list_once(channel, side.runtime.reactor)
    finally:
        await channel.close()
    kinds, config = side.kinds.by_name, side.settings.path
    return [
        Endpoint(
            one.id,
            one.kind,
            one.served,
            problem="" if one.kind in kinds else not_enabled(one.kind, kinds, config),
        ).public
        for _, one in sorted(seen.items())
    ]


@click.command("proxy-ssh")
@click.argument("name")
@click.option("--kind", default="ssh", show_default=True, help="The kind of the resource.")
@click.option("--user", default="", metavar="NAME", help="The user name on the target (%r in ssh).")
@click.option(
    "--parameter",
    "parameters",
    multiple=True,
    metavar="NAME=VALUE",
    help="A parameter of the resource's kind; may be repeated.",
)
@own_directory_option
@click.pass_obj
def proxy_ssh(
    globals_: Globals, name: str, kind: str, user: str, parameters: tuple[str, ...]
) -> int:
    """Carry one session over stdin and stdout, as an ssh ProxyCommand.

    Example:
        ssh -o 'ProxyCommand=svc proxy-ssh --user %r %h' NAME
        svc proxy-ssh --kind tcp NAME
    """
    from svc.client.resident.refused import refused_text
    from svc.client.sessions import SessionIntent
    from svc.model.session.parameters import resolved

    settings = _settings(globals_)
    if kind not in settings.plugins.kinds:
        raise click.UsageError(
            f"--kind {escaped(kind)}: must be one of the kinds that {settings.path} enables: "
            f"{', '.join(settings.plugins.kinds)}"
        )
    side = able_person(globals_, (kind,))
    known = side.kinds.by_name[kind]
    intent = SessionIntent(name, known, _parameters(user, parameters))
    try:
        resolved(known.taken(), intent.parameters, kind)
    except SvcError as refusal:
        raise click.UsageError(escaped(refusal.text)) from None
    taken, given = _take_stdio()
    try:
        return run(lambda reactor: _carried(with_reactor(side, reactor), intent, taken))
    except SvcError as refusal:
        hint([f"svc: {escaped(refused_text(name, refusal, own_options(globals_.config)))}"])
        return 1
    finally:
        for terminal in given:
            os.set_blocking(terminal, True)


def _parameters(user: str, given: tuple[str, ...]) -> dict[str, str]:
    """What is asked for; ``--user`` is the parameter ``login_user``."""
    return parameter_pairs(given, {"login_user": user} if user else {})


async def _carried(side: PersonSide, intent: SessionIntent, taken: tuple[int, int]) -> int:
    from svc.client.resident.refused import wrong_kind
    from svc.client.sessions import opened_text
    from svc.client.stdio import PipedSession, StdioPipes
    from svc.compose.signals import LeavingSignals
    from svc.runtime.services import BackgroundTasks

    async def begin(session: ClientSession) -> StdioPipes:
        # The notice stands on stderr, where it spoils no transfer.
        hint([opened_text(session)])
        signals.heed()
        return StdioPipes(side.runtime.reactor, *taken)

    channel, tasks = await side.connect(), BackgroundTasks()
    session = side.dialer(lambda: channel, tasks).endpoint(intent)
    piped = PipedSession(session=session, begin=begin, cut=_say_cut)
    signals = LeavingSignals(reactor=side.runtime.reactor, leave=piped.leave)
    try:
        ended = await piped.carry()
    except SvcError as refusal:
        name = intent.resource
        found = await _kind_of(side, channel, name)
        raise wrong_kind(name, intent.kind.name, found, refusal) from None
    finally:
        signals.restore()
    await tasks.stopService()
    await channel.close()
    if signals.is_interrupted:
        raise click.Abort
    return 0 if ended.is_clean else 1


async def _kind_of(side: PersonSide, channel: Any, name: str) -> str:
    """The kind of a resource that may be viewed; empty where that is not known."""
    from svc.client.link import list_once

    try:
        seen = await list_once(channel, side.runtime.reactor)
    except SvcError:
        return ""
    return seen[name].kind if name in seen else ""


def _say_cut(session: ClientSession) -> None:
    """Why the session was cut; while ssh still runs, which ends us with the pipes."""
    from svc.client.ended import ended_text

    hint([f"svc: {escaped(ended_text(session.intent.resource, session.over()))}"])


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


def _settings(globals_: Globals) -> RoleSettings:
    from svc.compose.person import client_settings

    return client_settings(globals_.config, globals_.environ)


def _person(globals_: Globals, kinds: Iterable[str] | None = ()) -> PersonSide:
    """The person's side, refused before anything runs; it has no reactor yet."""
    from svc.compose.person import load_person

    return load_person(runtime(globals_, None), _settings(globals_), kinds)


def able_person(globals_: Globals, kinds: Iterable[str] | None = ()) -> PersonSide:
    """The person's side, for what a certificate is needed for that is good now.

    Args:
        kinds: Those that the command needs; None: all that are enabled.

    Raises:
        SvcError: there is none, or it has ended.
    """
    from svc.client.own_certificate import check_own

    side = _person(globals_, kinds)
    check_own(side.identity)
    return side


def with_reactor(side: PersonSide, reactor: Any) -> PersonSide:
    """The same side once the reactor is there."""
    return evolve(side, runtime=evolve(side.runtime, reactor=reactor))


def person_side(globals_: Globals) -> PersonSide:
    """The person's side, for another module's command."""
    return _person(globals_)


def ask_status(side: PersonSide) -> dict[str, Any] | None:
    """What the resident tells, as it knows it; None where none runs with this identity."""
    return _ask(side, refresh=False)


def _ask(side: PersonSide, refresh: bool) -> dict[str, Any] | None:
    told, another = _own_and_another(side, refresh)
    if another is not None:
        hint([f"`svc up` {escaped(still_as(another))}"])
    return told


def _own_and_another(
    side: PersonSide, refresh: bool
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """What a resident with this identity tells, or whose identity the one has that runs."""
    from svc.client.own_certificate import identity_status
    from svc.client.resident.control import ask_resident

    def ask(refresh: bool) -> dict[str, Any] | None:
        question = {"ask": "status", "refresh": refresh}
        return ask_resident(side.run_directory, question, _ASK_SECS)

    told = ask(refresh=False)
    if told is None:
        return None, None
    another = another_identity(told, identity_status(side.identity))
    if another is not None:
        return None, another
    return (ask(refresh=True) if refresh else told), None


__all__ = [
    "able_person",
    "ask_status",
    "person_side",
    "proxy_ssh",
    "resources",
    "status",
    "up",
    "with_reactor",
]
