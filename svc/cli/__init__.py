"""The command line: one program, ``svc``, that imports the module of a command only when it runs.

Exit codes are chosen here: a refusal's own (``SvcError.exit_code``), 64 for wrong usage, 0 for
success.  Commands write only their data to stdout.  It is one shelf: a module for each few
commands, imported by none of the others.  Begin with ``main``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import click
from attrs import define

from svc import __version__
from svc.cli.groups import Group, keep_examples
from svc.errors import SvcError
from svc.telemetry.escape import escaped

USAGE_EXIT = 64

_COMMANDS = {
    "authority": "svc.cli.authority.commands:authority",
    "proxy": "svc.cli.roles:proxy",
    "connector": "svc.cli.roles:connector",
    "all": "svc.cli.roles:all_roles",
    "init": "svc.cli.setup:init",
    "demo": "svc.cli.setup:demo",
    "doctor": "svc.cli.doctor:doctor",
    "join": "svc.cli.join:join",
    "login": "svc.cli.login:login",
    "logout": "svc.cli.login:logout",
    "up": "svc.cli.person:up",
    "status": "svc.cli.person:status",
    "resources": "svc.cli.person:resources",
    "open": "svc.cli.native:open_resource",
    "db": "svc.cli.native:db",
    "kubeconfig": "svc.cli.native:kubeconfig",
    "proxy-ssh": "svc.cli.person:proxy_ssh",
    "why": "svc.cli.why:why",
    "request": "svc.cli.access:request",
    "requests": "svc.cli.access:requests",
    "contexts": "svc.cli.contexts:contexts",
    "service": "svc.cli.services:service",
    "reload": "svc.cli.reload:reload",
    "setup": "svc.cli.setup_plan:setup",
    "upgrade": "svc.cli.upgrade:upgrade",
    "_policy-guard": "svc.cli.hidden:policy_guard",
}


@define
class Globals:
    """What every command is given.

    Attributes:
        config: The path given by ``--config``, or None.
    """

    config: str | None
    environ: Mapping[str, str]


class LazyGroup(Group):
    """A group that imports a command's module only when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command but the hidden ones."""
        return [name for name in _COMMANDS if not name.startswith("_")]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, its module imported."""
        place = _COMMANDS.get(cmd_name)
        if place is None:
            return None
        module, _, name = place.partition(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return keep_examples(command)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """``--config PATH`` counts wherever it stands, not only before the command."""
        return super().parse_args(ctx, config_first(args))

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; what a refusal tells to type gets the options that were typed here."""
        try:
            return super().invoke(ctx)
        except SvcError as refusal:
            from svc.cli.next_commands import completed_refusal

            raise completed_refusal(refusal, ctx) from refusal.__cause__
        except click.UsageError as wrong:
            from svc.cli.next_commands import completed_usage

            raise completed_usage(wrong, ctx) from wrong.__cause__

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """A word that is no command names the roles and commands there are."""
        if args and args[0] not in _COMMANDS:
            raise click.UsageError(
                f"no command {args[0]!r}; roles are authority, proxy, connector, all; "
                f"commands: {', '.join(self.list_commands(ctx)[4:])}"
            )
        return super().resolve_command(ctx, args)


def config_first(words: Sequence[str]) -> list[str]:
    """The words with each ``--config PATH`` before all others; what follows ``--`` stays."""
    taken: list[str] = []
    others: list[str] = []
    left = list(words)
    while left and left[0] != "--":
        word = left.pop(0)
        if word.startswith("--config="):
            taken.append(word)
        elif word == "--config" and left:
            taken += [word, left.pop(0)]
        else:
            others.append(word)
    return [*taken, *others, *left]


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--config", "-c", metavar="PATH", help="The configuration file.")
@click.version_option(__version__, "--version", message="svc %(version)s")
@click.pass_context
def svc(context: click.Context, config: str | None) -> None:
    """Reach servers, databases, web applications and Kubernetes APIs through an access gateway.

    The roles of a gateway are authority, proxy and connector; `all` runs the three in one process.

    Example:
        svc demo                       # see a whole gateway at work
        svc init my-gateway --all      # make one, and be told what to type next
    """
    context.obj = Globals(config, os.environ)


keep_examples(svc)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status."""
    try:
        result = svc.main(
            args=None if arguments is None else list(arguments),
            prog_name="svc",
            standalone_mode=False,
        )
    except click.UsageError as e:
        click.echo(f"svc: {e.format_message()}", err=True)
        return USAGE_EXIT
    except click.Abort:
        click.echo("svc: interrupted", err=True)
        return 130
    except click.ClickException as e:
        click.echo(f"svc: {e.format_message()}", err=True)
        return 1
    except SvcError as e:
        # A peer may have chosen the words; the lines of a list of problems are ours.
        lines = "\n".join(escaped(line) for line in e.text.split("\n"))
        click.echo(f"svc: {lines}", err=True)
        return e.exit_code
    except BrokenPipeError:
        # Whoever read our stdout has gone; there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return result if isinstance(result, int) else 0
