"""Files by which tools find a local endpoint: a kubeconfig, for example.

Each is the person's alone, and is written again only where it would say something else.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from svc.runtime import durable


def describe(state: Path, local: Any, cluster: str, resource: str, address: str) -> Path:
    """Write the file of one endpoint.  Blocks for the disk.

    Args:
        state: The person's directory of svc.
        local: See :class:`svc.interfaces.kinds.IDescribedEndpoint`.

    Raises:
        OSError: it cannot be written.
    """
    path = _path(state, local, resource)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    said = local.description(cluster, resource, address)
    if _read(path) != said:
        durable.replace(path, said)
    return path


def forget(state: Path, local: Any, resource: str) -> None:
    """Remove it: what it describes is not served any more.  Raises OSError."""
    _path(state, local, resource).unlink(missing_ok=True)


def _path(state: Path, local: Any, resource: str) -> Path:
    return state / str(local.directory) / str(local.file_name(resource))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
