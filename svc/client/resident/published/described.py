"""Files by which tools find a local endpoint, a kubeconfig for example, and know who answers there.

Each is the person's alone, and is written again only where it would say something else.  Who
answers is known from the line by which a Connector that ends a session's protocol names itself.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from twisted.logger import Logger

from svc.errors import Malformed
from svc.interfaces.kinds import IDescribedEndpoint
from svc.runtime import durable
from svc.tunnel.greeting import Keep

_log = Logger(namespace="svc_client")


def describe(
    state: Path, local: Any, *, cluster: str, resource: str, address: str, options: str = ""
) -> str:
    """Write the file of one endpoint, if its kind has one; what is wrong, or nothing.

    Blocks for the disk.

    Args:
        state: The person's directory of svc.
        local: The kind's side here.
        options: What a command of svc ends with, to use this identity.
    """
    if not IDescribedEndpoint.providedBy(local):
        return ""
    path = _path(state, local, resource)
    try:
        place = str(path.parent.absolute())
        said = local.description(cluster, resource, address, place=place, options=options)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        if _read(path) != said:
            durable.replace(path, said)
    except Malformed as fault:
        return f"no file for tools: {fault.text}"
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


def keeping(state: Path) -> Keep:
    """Keeps files below *state*, each written again only where it would say something else."""

    def keep(directory: str, name: str, content: bytes) -> None:
        path = state / directory / name
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            if not path.exists() or path.read_bytes() != content:
                durable.replace(path, content)
        except OSError as error:
            _log.error("no file for tools", path=str(path), error=error.strerror)

    return keep
