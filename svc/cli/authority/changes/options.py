"""Options and habits that these commands have in common."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from svc.cli.calls import several_calls
from svc.client.places import CLIENT_FILE
from svc.telemetry.escape import escaped

_R = TypeVar("_R")

TRY_SECS = 60.0
"""A text may take long to be tried."""


def _no_directory(context: click.Context, _: click.Parameter, config: Path | None) -> Path | None:
    if config is not None and config.is_dir():
        raise click.UsageError(
            f"--identity {escaped(str(config))}: is a directory; name its {CLIENT_FILE}: "
            f"--identity {escaped(str(config / CLIENT_FILE))}",
            context,
        )
    return config


identity_option = click.option(
    "--identity",
    type=click.Path(path_type=Path),
    callback=_no_directory,
    metavar="CONFIG",
    help="The client's configuration whose identity signs (default: ~/.svc/client.toml).",
)

reason_option = click.option(
    "--reason",
    default="",
    metavar="TEXT",
    help="The reason, for the approvers and the audit record.",
)


def asks_often(command: Callable[..., _R]) -> Callable[..., _R]:
    """For a command that asks the Authority more than once."""

    @wraps(command)
    def asking(context: click.Context, /, *args: Any, **options: Any) -> _R:
        with several_calls(context):
            return command(context, *args, **options)

    return asking
