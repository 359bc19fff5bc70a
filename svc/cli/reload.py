"""``svc reload``: has a running role read its configuration again."""

from __future__ import annotations

import os
from pathlib import Path

import click

from svc.cli import Globals
from svc.cli.calls import run
from svc.cli.control import SocketPlace, ask_at, config_path
from svc.cli.output import hint, json_option, print_result
from svc.errors import ConfigError, Fault, SvcError

RESTART_EXIT = 1
_SECS = 10.0
_METHOD = "/gate.v1.Process/Reload"


@click.command()
@click.option(
    "--role",
    required=True,
    type=click.Choice(("authority", "proxy", "connector", "all")),
    help="The role whose process reloads.",
)
@json_option
@click.pass_context
def reload(context: click.Context, role: str, as_json: bool) -> int:
    """Have a running role read its configuration again, and wait until it has taken effect.

    Run it on the role's host, as the role's user or as root.  The role checks the whole file as at
    a start.  Keys that need a restart are listed, and then nothing changes; the reference of the
    configuration marks those that do not.  Status 0: the file is in force; 1: it is not, and the
    role runs on by what it had.
    """
    from svc.proto.gate.v1 import process_pb2 as pb

    path = Path(config_path(context)).absolute()
    globals_ = context.find_object(Globals)
    assert globals_ is not None
    place = SocketPlace(
        directory=_state_directory(str(path), globals_),
        name="process.sock",
        whom="svc all" if role == "all" else f"the {role}",
        absent="role_not_running",
    )
    request = pb.ReloadRequest(role=role, config=str(path))
    try:
        answer = run(
            lambda reactor: ask_at(
                reactor, place, _METHOD, request, pb.ReloadResponse, deadline=_SECS
            )
        )
    except SvcError as refusal:
        if refusal.fault is Fault.DEADLINE:
            raise _unanswered(place) from None
        raise
    result = {
        "role": role,
        "config": str(path),
        "generation": answer.generation,
        "sha256": answer.digest,
        "changed_keys": list(answer.changed),
        "restart_keys": list(answer.restart),
    }
    if answer.restart:
        keys, verb = ", ".join(answer.restart), "needs" if len(answer.restart) == 1 else "need"
        print_result(as_json, result, ())
        hint([f"svc: nothing was changed: {keys} {verb} a restart of {place.whom}"])
        return RESTART_EXIT
    lines = [
        f"{path} is in force at {place.whom}; changed: {', '.join(answer.changed) or 'nothing'}",
        f"generation {answer.generation}, sha256 {answer.digest}",
    ]
    print_result(as_json, result, lines)
    return 0


def _state_directory(path: str, globals_: Globals) -> Path:
    """Where the role's socket is, by the file alone: what is wrong with the rest the role says.

    Raises:
        ConfigError: the file cannot be read, is not TOML, or names no directory.
    """
    from svc.config.problems import whole
    from svc.config.rules import lookup
    from svc.config.source import overlay, parse, read_file

    tree = parse(read_file(path), whole(path))
    overlay(tree, globals_.environ)
    found = lookup(tree, "state_dir")
    if not isinstance(found, str) or not os.path.isabs(found):
        raise ConfigError("state_dir", "required, an absolute path: there the role is asked")
    return Path(found)


def _unanswered(place: SocketPlace) -> SvcError:
    return SvcError(
        f"{place.path}: {place.whom} did not answer in {_SECS:g} s; whether it reloaded says its "
        "log (deadline)",
        reason="deadline",
        fault=Fault.DEADLINE,
    )
