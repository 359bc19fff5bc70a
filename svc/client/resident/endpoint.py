"""What one resource is on a person's machine, as files and commands show it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from attrs import frozen


@frozen
class Endpoint:
    """One resource on this machine.

    Attributes:
        address: ``host:port``, or empty where no port is open.
        socket: Path of its unix socket, or empty.
        directory: Where libpq finds that socket: what ``psql -h`` is given; empty for ssh.
        problem: Why something of it is missing; empty when all is well.
        url: What a browser is given; empty for what is not for browsers.
    """

    resource: str
    kind: str
    served: bool
    address: str = ""
    socket: str = ""
    directory: str = ""
    problem: str = ""
    url: str = ""

    @property
    def public(self) -> dict[str, Any]:
        """As files and commands show it."""
        return {
            "resource": self.resource,
            "kind": self.kind,
            "served": self.served,
            "address": self.address,
            "socket": self.socket,
            "directory": self.directory,
            "problem": self.problem,
            "url": self.url,
        }


def not_enabled(kind: str, enabled: Iterable[str], config: str) -> str:
    """Why nothing is served of a resource whose kind *config* does not name."""
    line = json.dumps(sorted({kind, *enabled}))
    return (
        f"its kind {kind} is not enabled: make plugins.kinds = {line} the first line of {config}, "
        f"in place of any plugins.kinds there, and start svc up again"
    )
