"""``pg_service.conf``: the databases of the resident's endpoints, for tools built on libpq.

Calls block for the disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from svc.runtime import durable

NAME = "pg_service.conf"
PORT = 5432
"""In the name of the socket that libpq looks for."""

MOST_DIRECTORY = 200
"""libpq takes no line of more than 255 bytes, and no socket with a path of more than 107."""

_HEAD = """\
# Written by `svc up` whenever its endpoints change; what is edited here is lost.
# PGSERVICEFILE names this file; the role and the database are yours to add:
#   PGSERVICEFILE={path} psql 'service=NAME user=ROLE dbname=DATABASE'
"""


def write_services(directory: Path, services: Iterable[tuple[str, str, str]]) -> None:
    """Put the file in place whole, readable by its owner alone.

    Args:
        services: Name, ``host:port`` and socket directory of each; either may be empty.
    """
    path = directory / NAME
    lines = [_HEAD.format(path=path) if str(path).isprintable() else ""]
    for name, address, socket_directory in services:
        lines += _service(name, address, socket_directory)
    durable.replace(path, "".join(lines).encode("utf-8", "surrogateescape"))


def _service(name: str, address: str, directory: str) -> Iterator[str]:
    host, _, port = address.rpartition(":")
    if not address:
        host, port = directory, str(PORT)
    if host and host.isprintable() and len(host) <= MOST_DIRECTORY:
        yield f"\n[{name}]\nhost={host}\nport={port}\n"
