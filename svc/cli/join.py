"""``svc join``: a one-use token becomes an identity on this machine."""

from __future__ import annotations

import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from svc.cli import Globals
from svc.cli.calls import run
from svc.cli.calls import runtime as runtime
from svc.cli.directory import new_identity_directory
from svc.cli.next_commands import DIRECTORY
from svc.cli.output import json_option, print_result
from svc.telemetry.escape import escaped

if TYPE_CHECKING:
    pass

_MAX_TOKEN = 4096


def _note(context: click.Context, _: click.Parameter, directory: Path | None) -> Path | None:
    if directory is not None:
        context.meta[DIRECTORY] = directory
    return directory


directory_option = click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path),
    metavar="DIR",
    callback=_note,
    help="Directory for your identity and configuration; ~/.svc by default.",
)
"""Of the commands that make an identity on a person's machine."""


@click.command()
@click.option(
    "--proxy",
    "proxies",
    metavar="HOST:PORT",
    multiple=True,
    required=True,
    help="A Proxy of the cluster; may be repeated.",
)
@click.option(
    "--ca-pin",
    "pin",
    metavar="PIN",
    required=True,
    help="SHA-256 of the cluster's root certificate, from your operator.",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File with the join token; without it, the token is read from stdin or prompted for.",
)
@directory_option
@click.option(
    "--authority",
    metavar="HOST:PORT",
    help="The Authority's join listener, to join directly instead of through a Proxy.",
)
@click.option(
    "--replace",
    "replaces",
    is_flag=True,
    help="Replace an identity of another gateway that is in the directory.",
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
    replaces: bool,
    as_json: bool,
) -> None:
    """Exchange a one-use token for your identity on this machine.

    Example:
        svc join --proxy gate.example.org:7400 --ca-pin PIN --token-file ada.token
    """
    from svc.cli.setup import program
    from svc.client.own_options import path_lines
    from svc.join.person import check_pin, parse_addresses, prepare, take_identity

    addresses = parse_addresses("--proxy", proxies)
    direct = parse_addresses("--authority", (authority,))[0] if authority else None
    check_pin(pin)
    token = _token(token_file)
    place = prepare(new_identity_directory(directory, globals_.environ))
    joined = run(
        lambda reactor: take_identity(
            runtime(globals_, reactor),
            place,
            addresses,
            direct,
            pin,
            token,
            partial(click.echo, err=True),
            replaces,
        )
    )
    option = "" if directory is None else f" --dir {shlex.quote(str(joined.config.parent))}"
    result = {"cluster": joined.cluster, "name": joined.name, "config": str(joined.config)}
    print_result(
        as_json,
        result,
        [f"joined {joined.cluster} as {escaped(joined.name)}"],
        [
            *path_lines(program()),
            f"svc up{option}              # open a local endpoint for every resource you may use",
            f"svc resources list{option}  # list those resources",
            f'ssh -o ProxyCommand="svc proxy-ssh{option} --user %r %h" NAME',
        ],
    )


def _token(token_file: Path | None) -> Any:
    """The token, from a file, stdin or the terminal; never from the command line (rule R5)."""
    from svc.join.enroll import read_token
    from svc.model.cluster.token import parse_token

    if token_file is not None:
        return read_token(token_file)
    if sys.stdin.isatty():
        return parse_token(click.prompt("Join token", hide_input=True, err=True))
    return parse_token(sys.stdin.read(_MAX_TOKEN))
