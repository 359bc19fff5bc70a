"""The options with which a printed command uses the same identity as the one that prints it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping

from svc.client.places import CLIENT_FILE, config_path


def own_options(config: str | None) -> str:
    """What a person's command ends with to read *config*; empty where none was named.

    A shell reads nothing else into it.
    """
    if not config:
        return ""
    directory, name = os.path.split(config)
    words = ["--dir", directory or "."] if name == CLIENT_FILE else ["--config", config]
    return f" {shlex.join(words)}"


def options_elsewhere(config: str, environ: Mapping[str, str]) -> str:
    """The same for a command in any directory; empty where it reads *config* by itself."""
    path = os.path.abspath(config)
    own = config_path(None, {"HOME": environ.get("HOME", "")})
    return "" if path == own else own_options(path)
