"""A web application and a Kubernetes API in one process, which a test can kill: two ports."""

from __future__ import annotations

import sys
from threading import Event

from tests.system.board import Site
from tests.system.kube_api.server import Cluster


def main(web: str, kube: str) -> None:
    """Serve until it is killed."""
    Site(int(web))
    Cluster(int(kube))
    Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
