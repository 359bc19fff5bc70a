"""The options with which a printed command uses the same identity as the one that prints it."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping

from svc.client.places import CLIENT_FILE, config_path

_COMMAND = re.compile(
    r"\bsvc (?:login|logout|join|status|kubeconfig|why|request|open|db|resources list"
    r"|requests (?:list|show|approve|deny|withdraw))(?![\w-])|(?<=: )svc up(?![\w-])"
)
"""What a text may tell a person to type; of `svc up` most only speak."""

OWN_COMMANDS = {"kube": "svc kubeconfig", "postgres": "svc db {}", "web": "svc open {}"}
"""What a person types to use a resource of a kind, where that is not ssh or proxy-ssh."""

_OF_ANOTHER = ("--dir", "another directory")
"""In a text that names an identity itself, or tells to make another one."""


def own_options(config: str | None) -> str:
    """What a person's command ends with to read *config*; empty where none was named.

    A shell reads nothing else into it.
    """
    if not config:
        return ""
    directory, name = os.path.split(config)
    words = ["--dir", directory or "."] if name == CLIENT_FILE else ["--config", config]
    return f" {shlex.join(words)}"


def with_options(text: str, options: str) -> str:
    """*text* in which the commands to type use the identity that it is about.

    Whoever words it, Authority for one, does not know where the person keeps that.
    """
    if not options or any(one in text for one in _OF_ANOTHER):
        return text
    return _COMMAND.sub(lambda found: f"{found[0]}{options}", text)


def path_lines(program: str) -> list[str]:
    """What to type so that a shell finds ``svc``, which denials name; nothing where it does.

    Args:
        program: How ``svc`` is called here, as words of the shell.
    """
    words = shlex.split(program)
    directory, name = os.path.split(words[0])
    if len(words) != 1 or not directory or name != "svc":
        return []
    return [f'export PATH={shlex.quote(directory)}:"$PATH"   # finds the svc of these commands']


def options_elsewhere(config: str, environ: Mapping[str, str]) -> str:
    """The same for a command in any directory; empty where it reads *config* by itself."""
    path = os.path.abspath(config)
    if not path.isprintable():
        return ""  # no message can hold it
    own = config_path(None, {"HOME": environ.get("HOME", "")})
    return "" if path == own else own_options(path)
