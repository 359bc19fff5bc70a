"""``endpoints.json``: the last local addresses, for other programs and the next start.

Version 2.  A version 1 file is kept beside as ``endpoints.v1.json``; one of a
later version is left alone (G-OPEN-65).  Calls block for the disk.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import define, field
from twisted.logger import Logger

from svc.client.resident.addresses import is_ours
from svc.client.resident.endpoint import Endpoint
from svc.client.resident.published.environment import listed_files, write_environment
from svc.client.resident.published.pg_services import NAME as SERVICES_NAME
from svc.client.resident.published.pg_services import write_services
from svc.errors import ConfigError
from svc.runtime import durable

_log = Logger(namespace="svc_client")

VERSION = 2
NAME = "endpoints.json"
OLD_NAME = "endpoints.v1.json"
_MAX_BYTES = 16 * 1024 * 1024

SERVICE_KIND = "postgres"
"""Its resources are in ``pg_service.conf``."""


def read_endpoints(directory: Path) -> dict[str, str]:
    """The last address of each resource; empty if there is no file.

    Raises:
        ConfigError: the file is of a later version: this build must not replace it.
    """
    path = directory / NAME
    document = _document(path)
    version = document.get("version")
    if isinstance(version, int) and version > VERSION:
        raise ConfigError(
            str(path),
            f"has version {version}, written by a later svc; use that release, or move the "
            "file away to start without it",
        )
    if version == 1:
        durable.replace(directory / OLD_NAME, path.read_bytes())
    endpoints = document.get("endpoints")
    if not isinstance(endpoints, list):
        return {}
    return _addresses(each for each in endpoints if isinstance(each, dict))


def write_endpoints(directory: Path, cluster: str, endpoints: Iterable[Mapping[str, Any]]) -> None:
    """Put the file in place whole, readable by its owner alone."""
    document = {"version": VERSION, "cluster": cluster, "endpoints": list(endpoints)}
    text = json.dumps(document, indent=2, sort_keys=True) + "\n"
    durable.replace(directory / NAME, text.encode("ascii"))


def _document(path: Path) -> dict[str, Any]:
    try:
        data = path.read_bytes()[: _MAX_BYTES + 1]
    except FileNotFoundError:
        return {}
    try:
        document = json.loads(data)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _addresses(endpoints: Iterable[dict[str, Any]]) -> dict[str, str]:
    """The usable ones: of our network, and no address twice."""
    found: dict[str, str] = {}
    for each in endpoints:
        resource, address = each.get("resource"), str(each.get("address", "")).partition(":")[0]
        if isinstance(resource, str) and is_ours(address) and address not in found.values():
            found[resource] = address
    return found


@define
class PublishedFiles:
    """``endpoints.json``, ``pg_service.conf`` and ``env``.

    Attributes:
        state: Their directory.
        locals: The side of each kind that serves here, by the kind's name.
        is_behind: Whether the disk did not take what was to be written last.
    """

    state: Path
    cluster: str
    locals: Mapping[str, object]
    is_behind: bool = field(default=False, init=False)

    def write(self, endpoints: Sequence[Endpoint]) -> None:
        """Write down where *endpoints* are; what the disk does not take is said once."""
        was_behind, self.is_behind = self.is_behind, True
        try:
            write_endpoints(self.state, self.cluster, (one.public for one in endpoints))
            services = [one for one in endpoints if one.kind == SERVICE_KIND]
            write_services(
                self.state, ((one.resource, one.address, one.directory) for one in services)
            )
            named = ((one.resource, one.kind) for one in endpoints if one.address)
            write_environment(
                self.state,
                listed_files(self.state, self.locals, named),
                self.state / SERVICES_NAME if services else None,
            )
        except OSError as error:
            if not was_behind:
                _log.error(
                    "the addresses of local endpoints cannot be written down",
                    file=str(error.filename or self.state),
                    reason=error.strerror or str(error),
                )
            return
        self.is_behind = False
