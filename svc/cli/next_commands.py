"""What a text tells to type works as it stands: it gets the options of the command that ran.

Whoever words a refusal, the Authority for one, knows neither the configuration nor the directory
that a person named.  The command line knows both, so it completes the texts that it prints:
refusals, hints and what ``svc doctor`` finds.  A command for another host is left as it is: a
person's commands in what an Authority's host prints, an Authority's in what a Proxy's prints.  A
text of one host that means another writes ``svc --config FILE …``, which nothing here changes.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

import click
from attrs import evolve, frozen

from svc.cli import Globals
from svc.cli.groups import MissingCommand
from svc.cli.lane import OPTIONS, LaneOptions, client_config
from svc.client.own_options import own_options, with_options
from svc.client.places import CLIENT_FILE
from svc.errors import SvcError

DIRECTORY = "svc.cli.directory"
"""Where a click context's ``meta`` holds what ``--dir`` of a person's command named."""

_AUTHORITY = re.compile(r"\bsvc authority(?= [a-z])")
_HOST = re.compile(r"\bsvc (?=(?:doctor|reload)(?![\w-]))")
_ITS_FILES = re.compile(
    r" (?:accounts first-administrator|audit (?:adopt|export|prove|verify)|verify-audit|backup"
    r"|ca export|keys renew|policy replay|recordings rotate-key|preflight|state|store|migrate)"
    r"(?![\w-])"
)
"""Commands of ``svc authority`` that need its files: on its host only, whoever is told of them."""

_ROLES = ("authority", "proxy", "connector", "all")
_OF_ANY_ROLE = ("doctor", "reload", "service", "setup")


@frozen
class _Here:
    """What is added to commands that a text names; each is empty where it must not be.

    Attributes:
        host: After ``svc``, in commands of this host.
        authority: The same of ``svc authority``.
        lane: After ``svc authority``, where it goes through a Proxy.
        person: At a person's commands.
    """

    host: str = ""
    authority: str = ""
    lane: str = ""
    person: str = ""

    def completed(self, line: str) -> str:
        """*line* with the options in the commands that it names."""
        if "--config " not in line:
            line = _HOST.sub(f"svc {_literal(self.host)}", line)
            line = _AUTHORITY.sub(self._authority, line)
        return line if "--config " in line else with_options(line, self.person)

    def _authority(self, found: re.Match[str]) -> str:
        if self.lane and _ITS_FILES.match(found.string, found.end()):
            return found[0]
        return f"svc {self.authority}authority{self.lane}"


def completed(text: str) -> str:
    """*text* as it is printed beside the result of the command that runs."""
    return _lines(_here(click.get_current_context(silent=True), is_refusal=False), text)


def completed_refusal(refusal: SvcError, context: click.Context | None = None) -> SvcError:
    """*refusal* as the command that runs prints it.

    A person who asked an Authority through a Proxy is told to sign in again with the same
    identity; in a hint, a command to sign in is for somebody else.
    """
    text = _refused(refusal.text, context or click.get_current_context(silent=True))
    return refusal if text == refusal.text else refusal.with_(text=text)


def completed_usage(wrong: click.UsageError, context: click.Context) -> click.UsageError:
    """The same of a command line that is wrong; help that is shown with it stays as it is."""
    if isinstance(wrong, MissingCommand):
        return wrong
    said = wrong.format_message()
    text = _refused(said, context)
    return wrong if text == said else click.UsageError(text, wrong.ctx)


def _refused(text: str, context: click.Context | None) -> str:
    return _lines(_here(context, is_refusal=True), text)


def _lines(here: _Here, text: str) -> str:
    if here == _Here():
        return text
    return "\n".join(here.completed(line) for line in text.split("\n"))


def _here(context: click.Context | None, is_refusal: bool) -> _Here:
    given = None if context is None else context.find_object(Globals)
    if context is None or given is None:
        return _Here()
    told: LaneOptions | None = context.meta.get(OPTIONS)
    if told is not None:  # it is `svc authority`
        if not _through_proxy(given, told):
            return _host(given.config, "authority")
        here = _lane(given, told)
        return here if is_refusal else evolve(here, person="")
    command = context.find_root().invoked_subcommand or ""
    directory = context.meta.get(DIRECTORY)
    config = given.config if directory is None else str(directory / CLIENT_FILE)
    role = command if command in _ROLES else ""
    if command in _OF_ANY_ROLE:
        role = _role(config, given)
    return _host(config, role) if role in _ROLES else _Here(person=own_options(config))


def _through_proxy(given: Globals, told: LaneOptions) -> bool:
    try:
        return client_config(given, told) is not None
    except click.UsageError:
        return False


def _lane(given: Globals, told: LaneOptions) -> _Here:
    words = [word for proxy in told.proxies for word in ("--proxy", proxy)]
    path = given.config
    if told.directory is not None:
        words += ["--dir", str(told.directory)]
        path = str(told.directory / CLIENT_FILE)
    return _Here(
        authority=_options(["--config", given.config] if given.config else []),
        lane=f" {_options(words)}".rstrip(),
        person=own_options(path),
    )


def _host(config: str | None, role: str) -> _Here:
    options = _options(["--config", config] if config else [])
    return _Here(host=options, authority=options if role in ("authority", "all") else "")


def _role(config: str | None, given: Globals) -> str:
    from svc.config.configured import configured_role

    try:
        return configured_role(config, given.environ) if config else ""
    except SvcError:
        return ""


def _options(words: Sequence[str]) -> str:
    """As a shell reads them, with a space at the end; empty where no line can hold them."""
    text = shlex.join(words)
    return f"{text} " if text and text.isprintable() else ""


def _literal(text: str) -> str:
    return text.replace("\\", r"\\")
