"""Judges how much room is left on a disk; the store and the state directory are judged alike."""

from __future__ import annotations

from pathlib import Path

from svc.model.doctor import Finding, fail, ok, warn
from svc.ops.doctor.probes import room

LEAST = 64 << 20
"""Bytes below which a role stops serving before long."""

ENOUGH = 1 << 30
LEAST_FILES = 1000


def judged_room(path: Path, what: str) -> Finding:
    """What is to be said of the disk under *path*."""
    found = room(path)
    text = f"{sized(found.free)} of {sized(found.size)} free for {what} ({path})"
    hint = f"free some room on the disk of {path}, or move {what} to another one"
    if found.free < LEAST:
        return fail(text, hint)
    if found.files is not None and found.files < LEAST_FILES:
        return fail(f"only {found.files} more files fit for {what} ({path})", hint)
    if found.free < ENOUGH:
        return warn(text, hint)
    return ok(text)


def sized(count: int) -> str:
    """A number of bytes for people."""
    size, units = float(count), ["bytes", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{count} bytes" if units[0] == "bytes" else f"{size:.1f} {units[0]}"
