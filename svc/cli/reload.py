"""``svc reload``: has a running role read its configuration again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from svc.cli import Globals
from svc.cli.calls import run
from svc.cli.control import SocketPlace, ask_at
from svc.cli.output import hint, json_option, print_result
from svc.errors import ConfigError, Fault, SvcError

if TYPE_CHECKING:
    from google.protobuf.message import Message

    _Response = TypeVar("_Response", bound=Message)

RESTART_EXIT = 1
_ROLES = ("authority", "proxy", "connector", "all")
_SECS = 10.0
_METHOD = "/gate.v1.Process/Reload"


@click.command()
@click.option(
    "--role",
    type=click.Choice(_ROLES),
    help="The role whose process reloads; by default the one that the configuration is for.",
)
@json_option
@click.pass_context
def reload(context: click.Context, role: str | None, as_json: bool) -> int:
    """Have a running role read its configuration again, and wait until it has taken effect.

    Run it on the role's host, as the role's user or as root.  The role checks the whole file as at
    a start.  Keys that need a restart are listed, and then nothing changes; the reference of the
    configuration marks those that do not.  Status 0: the file is in force; 1: it is not, and the
    role runs on by what it had.

    Example:
        sudo -u svc-proxy svc --config /etc/svc/proxy.toml reload
    """
    from svc.proto.gate.v1 import process_pb2 as pb

    globals_ = context.find_object(Globals)
    assert globals_ is not None  # the outermost command makes it
    path = _config_path(globals_)
    role = role or _role(str(path), globals_)
    place = SocketPlace(
        directory=_state_directory(str(path), globals_),
        name="process.sock",
        whom="svc all" if role == "all" else f"the {role}",
        absent="role_not_running",
    )
    answer = _answer(place, pb.ReloadRequest(role=role, config=str(path)), pb.ReloadResponse)
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


def _answer(place: SocketPlace, request: Message, response_type: type[_Response]) -> _Response:
    """What the process says once it has read the file.

    Raises:
        SvcError: it refused, nobody answers there, or not in time.
    """
    try:
        return run(
            lambda reactor: ask_at(reactor, place, _METHOD, request, response_type, deadline=_SECS)
        )
    except SvcError as refusal:
        if refusal.fault is Fault.DEADLINE:
            raise _unanswered(place) from None
        raise


def _config_path(given: Globals) -> Path:
    """The configuration of the role on this host; no way leads to one elsewhere.

    Raises:
        click.UsageError: none is named.
    """
    path = given.config or given.environ.get("SVC_CONFIG")
    if not path:
        raise click.UsageError(
            "reload needs the role's configuration, on its host: svc --config FILE reload"
        )
    return Path(path).absolute()


def _role(path: str, globals_: Globals) -> str:
    """The role that the file is for.

    Raises:
        ConfigError: the file cannot be read, or is not TOML.
        click.UsageError: it is a person's, whose process takes no configuration again.
    """
    from svc.config.configured import configured_role

    role = configured_role(path, globals_.environ)
    if role not in _ROLES:
        raise click.UsageError(
            f"{path}: is for no role of a gateway, and only those reload; name the configuration "
            "of one with --config, or restart `svc up`"
        )
    return role


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
