"""Unit files: written and enabled, or as they were; the service manager is told of each change."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from svc.runtime.durable import replace
from svc.setup.units.machine import ServiceHost, ServiceRefused

UNIT_MODE = 0o644


def write_unit(machine: ServiceHost, name: str, text: str, is_own: bool) -> tuple[Path, bool]:
    """Write and enable a unit; a second call finds nothing to change.

    Returns:
        The file, and whether it has other bytes now, or is new.

    Raises:
        ServiceRefused: nothing was changed.
    """
    units = machine.units(is_own)
    path, scope = units / name, _scope(is_own)
    with _writing(path):
        units.mkdir(parents=True, exist_ok=True)
        before = path.read_bytes() if path.exists() else None
        after = text.encode()
        _write(path, after)
    try:
        machine.systemctl([*scope, "daemon-reload"])
        machine.systemctl([*scope, "enable", name])
    except ServiceRefused as refused:
        with suppress(ServiceRefused):
            if before is None:
                machine.systemctl([*scope, "disable", name])
        _undo(machine, path, before, scope)
        raise refused.with_(text=f"{refused.text}; nothing was changed") from None
    return path, before != after


def remove_unit(machine: ServiceHost, name: str, is_own: bool) -> Path | None:
    """Disable a unit and remove its file; what runs goes on.

    Returns:
        The file that was removed; None without one.

    Raises:
        ServiceRefused: the file is still there, or the service manager does not know that it is
            gone.
    """
    path, scope = machine.units(is_own) / name, _scope(is_own)
    if not os.path.lexists(path):
        return None
    machine.systemctl([*scope, "disable", path.name])
    try:
        path.unlink()
    except OSError as error:
        raise ServiceRefused(
            f"{path}: cannot be removed: {error.strerror}; the unit is disabled, and its file is "
            "still there: run this again",
            reason="unit_file",
        ) from None
    try:
        machine.systemctl([*scope, "daemon-reload"])
    except ServiceRefused as refused:
        again = " ".join(["systemctl", *scope, "daemon-reload"])
        text = f"{path}: removed, but {refused.text.partition(';')[0]}; run: {again}"
        raise refused.with_(text=text) from None
    return path


def _scope(is_own: bool) -> list[str]:
    return ["--user"] if is_own else []


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ServiceRefused(
            f"{error.filename or path}: cannot be written: {error.strerror}; nothing was changed",
            reason="unit_file",
        ) from None


def _write(path: Path, data: bytes) -> None:
    """Whole or not at all; everybody may read a unit."""
    if path.is_symlink():
        raise ServiceRefused(
            f"{path}: is a symbolic link; `systemctl unmask {path.name}` or remove it, and run "
            "this again",
            reason="unit_file",
        )
    replace(path, data)
    path.chmod(UNIT_MODE)


def _undo(machine: ServiceHost, path: Path, before: bytes | None, scope: list[str]) -> None:
    """Leave the file as it was found."""
    with suppress(OSError):
        if before is None:
            path.unlink()
        else:
            _write(path, before)
    with suppress(ServiceRefused):
        machine.systemctl([*scope, "daemon-reload"])
