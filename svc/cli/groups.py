"""Groups of commands, whose help is whole."""

from __future__ import annotations

import re
from inspect import cleandoc
from typing import Any

import click

_NO_LIMIT = 1 << 16
_EXAMPLE = re.compile(r"\n\n(?=Example:\n)")


class MissingCommand(click.UsageError):
    """A group was typed alone; the message is its help, below what is wrong."""

    def __init__(self, context: click.Context) -> None:
        super().__init__(f"Missing command.\n\n{context.get_help()}", context)


def keep_examples(command: click.Command | None) -> click.Command | None:
    """Let the help show the lines of a docstring below "Example:" as they are.

    click would wrap them like any paragraph.
    """
    if command is not None and command.help:
        command.help = _EXAMPLE.sub("\n\n\b\n", cleandoc(command.help))
    return command


class Group(click.Group):
    """Lists its commands with the whole first sentence of each, wrapped to the terminal."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("no_args_is_help", False)
        super().__init__(*args, **kwargs)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Called by click.

        Raises:
            MissingCommand: there is nothing but options, and the group does nothing alone.
        """
        if not self.invoke_without_command:
            given, words, _ = self.make_parser(ctx).parse_args(list(args))
            eager = {one.name for one in self.get_params(ctx) if one.is_eager}
            if not words and not eager & given.keys():
                raise MissingCommand(ctx)
        return super().parse_args(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Called by click."""
        return keep_examples(super().get_command(ctx, cmd_name))

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
