"""Groups of commands, whose help is whole."""

from __future__ import annotations

from typing import Any

import click

_NO_LIMIT = 1 << 16


class Group(click.Group):
    """Lists its commands with the whole first sentence of each, wrapped to the terminal."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("no_args_is_help", False)
        super().__init__(*args, **kwargs)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Called by click; its own cuts a line off where the terminal ends."""
        rows: list[tuple[str, str]] = []
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                rows.append((name, command.get_short_help_str(limit=_NO_LIMIT)))
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)
