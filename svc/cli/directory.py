"""``--dir`` of the person's commands: whose identity they use, where there are several."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ParamSpec, TypeVar

import click
from attrs import evolve

from svc.cli import Globals
from svc.cli.next_commands import DIRECTORY
from svc.client.places import CLIENT_FILE, home, selected

P = ParamSpec("P")
R = TypeVar("R")


def _use(context: click.Context, _: click.Parameter, directory: Path | None) -> None:
    if directory is None:
        return
    given = context.find_object(Globals)
    assert given is not None  # the outermost command makes it
    context.meta[DIRECTORY] = directory
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
    """Of the commands that use an identity: the same as ``--config DIR/client.toml``."""
    return _option(command)


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
