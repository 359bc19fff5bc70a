"""The page of the commands, from the commands themselves."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from inspect import cleandoc

import click

from contrib.reference.json_names import KEYS
from svc.cli import _COMMANDS, USAGE_EXIT, svc
from svc.config import SharedStateDir
from svc.setup.units.unit import CONFIG_REFUSED

_HEAD = f"""\
# Commands

Made from the commands themselves by `python -m contrib.reference`; do not edit.

`svc --config FILE COMMAND …`; `SVC_CONFIG` names the file where `--config` does not. Command data
goes to stdout, everything else to stderr. In text an empty value is `-`. Times are UTC.

With `--json` a command prints one document and nothing else, advice excepted that concerns what
was done and goes to stderr. Every command that ends with a result takes it; those that run a role,
`up`, `demo`, `db` and `proxy-ssh` do not. A list is an array of entries. One name means one thing
everywhere, see [names in JSON](#names-in-json). A time is a text in RFC 3339, a length of time a
number of seconds. A refusal is a text on stderr and a status other than 0, with `--json` as well.

A group of commands typed alone, such as `svc` or `svc authority nodes`, prints its help to stderr,
with the status of an invalid command line.

`svc authority` with a word asks the running Authority over `control.sock` in its state directory,
or looks at the store itself; `svc authority` alone runs the role. The configuration of `svc all`
serves as well. The socket answers the role's own user and root. Root needs a configuration that it
owns: it takes none that another user can change, since a configuration names what is read, written
and loaded as root. Where the role's user owns it, run the command as that user:
`sudo -u svc-authority svc --config FILE authority status`.

| Status | Meaning |
|---|---|
| 0 | Done. |
| 1 | Refused or failed; the text says why. A refusal of the Authority ends with its reason word. |
| 2 | Of `svc doctor` and `preflight`, a finding; of `policy check`, a request that is denied. |
| 3 | Migrations are pending. |
| 4 | The store holds migrations that this build does not know. |
| 5 | The store's migration lock was not obtained within 120 s. |
| 6 | The audit log does not verify. |
| {USAGE_EXIT} | The command line is invalid; nothing was started. |
| {CONFIG_REFUSED} | Under a unit of `svc service install`: 1 where the configuration is refused. |
| 130 | Interrupted. |
| {SharedStateDir.exit_code} | The unit provides the state directory that all roles once shared. |
"""

_OLDER = """\
## Older spellings

| Older | Same as |
|---|---|
| `svc authority list-nodes` | `svc authority nodes list` |
| `svc authority list-resources` | `svc authority resources list` |
| `svc authority verify-audit` | `svc authority audit verify` |
| `svc authority migrate` | `svc authority store migrate` |
"""


def markdown() -> str:
    """The page."""
    root = click.Context(svc, info_name="svc")
    parts = [_HEAD]
    for name in svc.list_commands(root):
        if not _is_there(_COMMANDS[name]):
            continue
        command = svc.get_command(root, name)
        assert command is not None
        parts += _sections(command, click.Context(command, root, info_name=name))
    return "\n".join([*parts, _names(), _OLDER])


def _names() -> str:
    rows = [f"| `{name}` | {meaning} |" for name, meaning in sorted(KEYS.items())]
    head = "Records of the log have the names of [the audit log](audit.md) instead."
    return "\n".join(
        ["## Names in JSON", "", head, "", "| Name | Meaning |", "|---|---|", *rows, ""]
    )


def _is_there(place: str) -> bool:
    """A build may be without a command."""
    module, _, name = place.partition(":")
    return find_spec(module) is not None and hasattr(import_module(module), name)


def _sections(command: click.Command, context: click.Context) -> Iterator[str]:
    """The command's own section, then those of the commands within it."""
    group = command if isinstance(command, click.Group) else None
    if group is None or group.invoke_without_command:
        yield _section(command, context)
    if group is not None:
        for name in group.list_commands(context):
            inner = group.get_command(context, name)
            if inner is not None and not inner.hidden:
                yield from _sections(inner, click.Context(inner, context, info_name=name))


def _section(command: click.Command, context: click.Context) -> str:
    words = [context.command_path]
    if not isinstance(command, click.Group):
        words += command.collect_usage_pieces(context)
    lines = [f"## `{context.command_path}`", "", f"`{' '.join(words)}`", ""]
    lines += [cleandoc(command.help or "").replace("\b\nExample:\n", "Example:\n\n"), ""]
    options = list(_options(command, context))
    if options:
        lines += ["| Option | Meaning |", "|---|---|", *options, ""]
    return "\n".join(lines)


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    for param in command.params:
        record = param.get_help_record(context)
        if record is not None and isinstance(param, click.Option):
            form, meaning = (text.replace("|", "\\|") for text in record)
            yield f"| `{form}` | {meaning} |"
