"""A web application and a Kubernetes API in one process, which a test can kill: two ports.

What reached them is kept in a file, which outlives them: the number of each request of a load.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from threading import Event
from typing import Any

from tests.system.board import Site
from tests.system.kube_api.server import Cluster

LOAD = re.compile(r"\bload[/_-]([0-9]+)")
"""The mark of a request that is part of a load, in its path and in its record."""


class Heard(list[Any]):
    """Requests that have come; those of a load are in the file before they are answered."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = path.open("ab", buffering=0)

    def append(self, one: Any) -> None:
        """Add a request."""
        if found := LOAD.search(str(one)):
            self._file.write(f"{found[1]}\n".encode())


def main(web: str, kube: str, heard: str) -> None:
    """Serve until it is killed."""
    Site(int(web)).heard = Heard(Path(heard))
    Cluster(int(kube)).heard = Heard(Path(heard))
    Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
