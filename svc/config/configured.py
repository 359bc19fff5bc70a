"""Which role a configuration file is for; a file does not say so by a key of its own.

Commands that are not told a role ask here.  Blocking; it reads the file and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

from svc.config.problems import whole
from svc.config.rules import lookup
from svc.config.source import overlay, parse, read_file

CLIENT_FILE = "client.toml"
"""What the file of a person is called, wherever it is; ``svc.client.places`` says the same, which
imports nothing of ours."""


def configured_role(path: str, environ: Mapping[str, str]) -> str:
    """The role whose required keys the file has; of a file that serves several, ``all``.

    What is wrong with the file otherwise is told by reading it as that role.

    Raises:
        ConfigError: the file cannot be read, or is not TOML.
    """
    tree = parse(read_file(path), whole(path))
    overlay(tree, environ)
    has_store = lookup(tree, "store_url") not in (None, "")
    has_listener = lookup(tree, "endpoints.public_listen") not in (None, "")
    if has_store and has_listener:
        return "all"
    if has_store:
        return "authority"
    if has_listener:
        return "proxy"
    is_person = PurePath(path).name == CLIENT_FILE or lookup(tree, "client") is not None
    is_node = any(lookup(tree, table) is not None for table in ("connector", "join", "telemetry"))
    return "connector" if is_node and not is_person else "client"
