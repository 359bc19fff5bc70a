"""Where a person's configuration is, and the resident's sockets.

``svc proxy-ssh`` imports this before anything else: it imports nothing but ``os``.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

HOME_DIRECTORY = ".svc"
CLIENT_FILE = "client.toml"
SYSTEM_CONFIG = "/etc/svc/client.toml"
ADMINISTRATOR = '"$HOME/.svc/administrator"'
"""As a shell reads it: where the first administrator's identity takes no other one's place."""

RUN_DIRECTORY = "run"
CONTROL_SOCKET = "control.sock"
CONTEXTS_DIRECTORY = "contexts"
LONGEST_PATH = 4096


def home(environ: Mapping[str, str]) -> str:
    """The person's own directory of svc."""
    return os.path.join(environ.get("HOME") or "/", HOME_DIRECTORY)


def selection_file(environ: Mapping[str, str]) -> str:
    """What ``svc contexts use`` writes: the path of a configuration."""
    return os.path.join(home(environ), CONTEXTS_DIRECTORY, "current")


def selected(environ: Mapping[str, str]) -> str | None:
    """The configuration that ``svc contexts use`` has selected; None without one.

    A selection that cannot be read is the file itself, which is no configuration: nobody gets
    another identity than the one that was selected.
    """
    path = selection_file(environ)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return path
    try:
        text = os.fsdecode(os.read(descriptor, LONGEST_PATH)).removesuffix("\n")
    except OSError:
        return path
    finally:
        os.close(descriptor)
    return text if is_selectable(text) else path


def is_selectable(path: str) -> bool:
    """Whether the file of the selection can hold a path."""
    return os.path.isabs(path) and path.isprintable() and len(os.fsencode(path)) < LONGEST_PATH


def chosen(given: str | None, environ: Mapping[str, str]) -> tuple[str, str] | None:
    """The configuration that a command reads, and the rule that chose it; None without any.

    In this order: ``--config``, ``$SVC_CONFIG``, what was selected, the person's own, the system's.
    """
    if given:
        return given, "--config"
    if variable := environ.get("SVC_CONFIG"):
        return variable, "SVC_CONFIG"
    if path := selected(environ):
        return path, "selected"
    for path, rule in ((_own(home(environ)), "own"), (SYSTEM_CONFIG, "system")):
        if os.path.lexists(path):
            return path, rule
    return None


def _own(directory: str) -> str:
    """The person's own configuration: ``client.toml``, or the only other one beside its place."""
    path = os.path.join(directory, CLIENT_FILE)
    if os.path.lexists(path):
        return path
    try:
        names = os.listdir(directory)
    except OSError:
        return path
    # What editors leave begins with a dot.
    others = [name for name in names if name.endswith(".toml") and not name.startswith(".")]
    return os.path.join(directory, others[0]) if len(others) == 1 else path


def config_path(given: str | None, environ: Mapping[str, str]) -> str | None:
    """The path of :func:`chosen`; None without any."""
    found = chosen(given, environ)
    return found[0] if found else None


def file_mark(path: str) -> str:
    """What tells a file, as it is now, from any other and from its later contents.

    Raises:
        OSError: it is not there.
    """
    found = os.lstat(path)
    return f"{found.st_dev}:{found.st_ino}:{found.st_mtime_ns}:{found.st_size}"
