"""Every command that can be typed."""

from __future__ import annotations

from collections.abc import Iterator

import click

from svc.cli import svc


def every_command() -> dict[str, click.Command]:
    """Every command by its whole name, the older spellings too; a group that runs nothing not."""
    return dict(_commands(svc, click.Context(svc, info_name="svc")))


def takes_json(command: click.Command) -> bool:
    """Whether it ends with a result that a program can read."""
    return any("--json" in one.opts for one in command.params)


def _commands(
    command: click.Command, context: click.Context
) -> Iterator[tuple[str, click.Command]]:
    group = command if isinstance(command, click.Group) else None
    if group is None or group.invoke_without_command:
        yield context.command_path, command
    names = () if group is None else (*group.list_commands(context), *_hidden(group))
    for name in dict.fromkeys(names):
        assert group is not None
        inner = group.get_command(context, name)
        assert inner is not None
        yield from _commands(inner, click.Context(inner, context, info_name=name))


def _hidden(group: click.Group) -> list[str]:
    return [name for name, one in group.commands.items() if one.hidden]
