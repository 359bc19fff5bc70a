"""``--dir`` of the person's commands: whose identity they use, where there are several."""

from __future__ import annotations

from pathlib import Path

import click
from attrs import evolve

from svc.cli import Globals
from svc.client.places import CLIENT_FILE


def _use(context: click.Context, _: click.Parameter, directory: Path | None) -> None:
    if directory is None:
        return
    given = context.find_object(Globals)
    assert given is not None  # the outermost command makes it
    if given.config:
        raise click.UsageError("--dir and --config: give only one of them")
    context.obj = evolve(given, config=str(directory / CLIENT_FILE))


own_directory_option = click.option(
    "--dir",
    type=click.Path(path_type=Path),
    metavar="DIR",
    expose_value=False,
    callback=_use,
    help="Directory of your identity and configuration; ~/.svc by default.",
)
"""Of the commands that use an identity: the same as ``--config DIR/client.toml``."""
