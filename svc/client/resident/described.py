"""Files by which tools find a local endpoint: a kubeconfig, for example.

Each is the person's alone, and is written again only where it would say something else.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from svc.interfaces.kinds import IDescribedEndpoint
from svc.runtime import durable


def describe(state: Path, local: Any, *, cluster: str, resource: str, address: str) -> str:
    """Write the file of one endpoint, if its kind has one; what is wrong, or nothing.

    Blocks for the disk.

    Args:
        state: The person's directory of svc.
        local: The kind's side here.
    """
    if not IDescribedEndpoint.providedBy(local):
        return ""
    path = _path(state, local, resource)
    said = local.description(cluster, resource, address)
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        if _read(path) != said:
            durable.replace(path, said)
    except OSError as error:
        return f"no file for tools: {path}: {error.strerror}"
    return ""


def forget(state: Path, local: Any, resource: str) -> None:
    """Remove it: what it describes is not served any more."""
    if IDescribedEndpoint.providedBy(local):
        with suppress(OSError):  # it leads nowhere now
            _path(state, local, resource).unlink(missing_ok=True)


def _path(state: Path, local: Any, resource: str) -> Path:
    return state / str(local.directory) / str(local.file_name(resource))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
