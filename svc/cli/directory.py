"""``--dir`` of the person's commands: whose identity they use, where there are several."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

import click
from attrs import evolve

from svc.cli import Globals
from svc.client.own_options import own_options, with_options
from svc.client.places import CLIENT_FILE, home, selected
from svc.errors import SvcError

P = ParamSpec("P")
R = TypeVar("R")


def _use(context: click.Context, _: click.Parameter, directory: Path | None) -> None:
    if directory is None:
        return
    given = context.find_object(Globals)
    assert given is not None  # the outermost command makes it
    if given.config:
        raise click.UsageError("--dir and --config: give only one of them")
    context.obj = evolve(given, config=str(directory / CLIENT_FILE))


_option = click.option(
    "--dir",
    type=click.Path(path_type=Path),
    metavar="DIR",
    expose_value=False,
    callback=_use,
    help="Directory of your identity and configuration; ~/.svc by default.",
)


def own_directory_option(command: Callable[P, R]) -> Callable[P, R]:
    """Of the commands that use an identity: the same as ``--config DIR/client.toml``.

    A refusal of the command tells to type commands that use the same identity.
    """

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except SvcError as refusal:
            text = with_options(refusal.text, own_options_here())
            raise refusal.with_(text=text) from refusal.__cause__

    return _option(run)


def new_identity_directory(directory: Path | None, environ: Mapping[str, str]) -> Path:
    """Where an identity is to be written: ``--dir``, else the person's own directory.

    Raises:
        UsageError: commands would not use what is written there, since another is selected.
    """
    own = home(environ)
    path = selected(environ)
    if directory is None and path not in (None, os.path.join(own, CLIENT_FILE)):
        raise click.UsageError(
            f"--dir: required here, since `svc contexts use` has selected {path}; give --dir {own} "
            "for an identity beside that one"
        )
    return Path(directory or own).absolute()


def own_options_here() -> str:
    """What a command to type ends with to use the identity of the one that runs."""
    given = click.get_current_context().find_object(Globals)
    return own_options(None if given is None else given.config)
