"""``svc contexts``: which client configurations there are, and which one commands use."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from svc.cli import Globals
from svc.cli.directory import own_directory_option
from svc.cli.groups import Group
from svc.cli.output import hint, json_option, pairs, print_result, table, with_nulls
from svc.client.contexts import ClientContext, discover, named, select
from svc.errors import SvcError
from svc.model.clocks import since
from svc.telemetry.escape import escaped

if TYPE_CHECKING:
    from svc.config import RoleSettings

_name = click.argument("name", metavar="[NAME]", required=False)


@click.group(cls=Group)
def contexts() -> None:
    """Choose between the client configurations of this machine."""


@contexts.command("list")
@own_directory_option
@json_option
@click.pass_obj
def list_contexts(globals_: Globals, as_json: bool) -> None:
    """List the client configurations; an asterisk marks the one that commands use."""
    found = discover(globals_.config, globals_.environ)
    told = [described(one, globals_) for one in found]
    rows = [
        (
            "*" if one["selected"] else "",
            one["name"],
            one["cluster"],
            one["person_name"] or one["person"] or one["agent"],
            _left(one),
            one["path"],
        )
        for one in told
    ]
    heads = ("USED", "NAME", "CLUSTER", "PERSON", "LEFT", "PATH")
    lines = table(heads, rows) if rows else ()
    hints = list(_problems(told)) if rows else [_none(globals_)]
    print_result(as_json, [with_nulls(one) for one in told], lines, hints)


@contexts.command()
@_name
@own_directory_option
@json_option
@click.pass_obj
def show(globals_: Globals, name: str | None, as_json: bool) -> None:
    """Show a client configuration; without NAME the one that commands use, and why it is used."""
    found = discover(globals_.config, globals_.environ)
    if name is None:
        from svc.compose.person import find_config

        name = os.path.abspath(find_config(globals_.config, globals_.environ))
    told = described(named(found, name), globals_)
    certificate = told["certificate"] or {}
    facts = [
        ("name", told["name"]),
        ("path", told["path"]),
        ("used", _RULES[told["rule"]]),
        ("directory", told["directory"]),
        ("cluster", told["cluster"]),
        ("proxies", told["addresses"]),
        ("agent" if told["agent"] else "person", told["agent"] or told["person"]),
        ("person's name", told["person_name"]),
        ("certificate expires", certificate.get("expires_at")),
        ("left", _left(told)),
        ("problem", told["problem"]),
    ]
    print_result(as_json, with_nulls(told), pairs(facts))


@contexts.command()
@_name
@own_directory_option
@json_option
@click.pass_obj
def use(globals_: Globals, name: str | None, as_json: bool) -> None:
    """Let commands use the configuration NAME from now on, or the one of --dir or --config.

    Example:
        svc contexts use work
        svc contexts use --dir ~/.svc/work
    """
    from svc.compose.person import client_settings

    if (name is None) == (globals_.config is None):
        raise click.UsageError("NAME, --dir and --config: give one of them")
    found = discover(globals_.config, globals_.environ)
    context = named(found, name or os.path.abspath(globals_.config or ""))
    client_settings(context.path, globals_.environ)
    select(context, globals_.environ)
    result = {"name": context.name, "path": context.path}
    print_result(as_json, result, [f"commands use {context.name}: {context.path}"])
    if globals_.environ.get("SVC_CONFIG"):
        hint(["SVC_CONFIG is set, and comes before what is selected"])


def _problems(told: list[dict[str, Any]]) -> Iterator[str]:
    """A line for each configuration that commands cannot use as it is."""
    for one in told:
        if one["problem"]:
            problem = "; ".join(one["problem"].splitlines())
            yield escaped(f"svc: {one['name']}: {problem}")
    if not any(one["selected"] for one in told):
        yield "svc: commands use none of these; to choose one: svc contexts use NAME"


def _none(globals_: Globals) -> str:
    from svc.client.contexts import looked_at
    from svc.compose.person import HOW_TO_BEGIN

    places = ", ".join(looked_at(globals_.environ))
    return escaped(f"svc: no client configuration in {places}; {HOW_TO_BEGIN}")


_RULES = {
    "": "no",
    "--config": "yes: --config or --dir names it",
    "SVC_CONFIG": "yes: SVC_CONFIG names it",
    "selected": "yes: `svc contexts use` selected it",
    "own": "yes: it is your own, and nothing else is selected",
    "system": "yes: it is the system's, and you have none of your own",
}


def described(context: ClientContext, globals_: Globals) -> dict[str, Any]:
    """What the configuration and the identity say; what is wrong with them is told, not raised."""
    from svc.compose.person import client_settings

    told: dict[str, Any] = {
        "name": context.name,
        "path": context.path,
        "selected": context.is_selected,
        "rule": context.rule,
        "directory": "",
        "addresses": [],
        "cluster": "",
        "person": "",
        "agent": "",
        "person_name": "",
        "certificate": None,
        "problem": "",
    }
    try:
        settings = client_settings(context.path, globals_.environ)
        told.update(_of_configuration(settings))
        told.update(_of_identity(settings))
    except SvcError as refusal:
        told["problem"] = refusal.text
    return told


def _of_configuration(settings: RoleSettings) -> dict[str, Any]:
    from svc.compose.person import state_directory

    return {
        "directory": str(state_directory(settings)),
        "cluster": settings.cluster,
        "addresses": [str(address) for address in settings.endpoints.proxy],
    }


def _of_identity(settings: RoleSettings) -> dict[str, Any]:
    """What the identity says; nobody is asked.

    Raises:
        SvcError: it is refused.
    """
    from svc.client.own_certificate import identity_status
    from svc.client.own_name import OwnName
    from svc.client.signin import SignInFile
    from svc.compose.person import state_directory
    from svc.pki.identity import TransportIdentity
    from svc.pki.identity_store import IdentityStore

    state = state_directory(settings)
    store = IdentityStore(state)
    if not store.exists:
        return {"problem": "there is no identity; sign in with `svc login`, or use `svc join`"}
    identity = TransportIdentity.load(store, time.time, settings.cluster or None)
    status = identity_status(identity, SignInFile(state).renew_until(), "")
    return {
        **{name: status[name] for name in ("cluster", "person", "agent", "certificate")},
        "person_name": OwnName(state).read(identity.principal.id),
        "problem": status["certificate"]["problem"],
    }


def _left(told: dict[str, Any]) -> str:
    """How long the certificate is still valid, for people."""
    if told["certificate"] is None:
        return ""
    left = told["certificate"]["seconds_left"]
    return since(left) if left > 0 else "expired"
