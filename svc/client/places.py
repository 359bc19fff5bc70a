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
RUN_DIRECTORY = "run"
CONTROL_SOCKET = "control.sock"


def home(environ: Mapping[str, str]) -> str:
    """The person's own directory of svc."""
    return os.path.join(environ.get("HOME") or "/", HOME_DIRECTORY)


def config_path(given: str | None, environ: Mapping[str, str]) -> str | None:
    """``--config``, ``$SVC_CONFIG``, the person's own file, the system's; None without any."""
    chosen = given or environ.get("SVC_CONFIG")
    if chosen:
        return chosen
    own = os.path.join(home(environ), CLIENT_FILE)
    return next((path for path in (own, SYSTEM_CONFIG) if os.path.lexists(path)), None)


def file_mark(path: str) -> str:
    """What tells a file, as it is now, from any other and from its later contents.

    Raises:
        OSError: it is not there.
    """
    found = os.lstat(path)
    return f"{found.st_dev}:{found.st_ino}:{found.st_mtime_ns}:{found.st_size}"
