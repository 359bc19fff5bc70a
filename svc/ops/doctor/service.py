"""Checks of the service around a role: its unit, its files, its disk, and what was set aside."""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs

from svc.audit.spool.aside import DAMAGED
from svc.client.places import RUN_DIRECTORY
from svc.client.resident.control import ask_resident
from svc.errors import SvcError
from svc.model.doctor import Finding, fail, info, ok, warn
from svc.ops.doctor.check import Check
from svc.ops.doctor.context import AS_THE_ROLE, NODES, ROLES, CheckContext
from svc.ops.doctor.probes import is_running
from svc.ops.doctor.room import judged_room, sized
from svc.runtime.durable import open_regular

SPOOL = "spool"
RECORDINGS = "recordings"
MOST_UNIT_BYTES = 1 << 16
_SECRET_FILES = ("passfile", "sslkey")
"""Parameters of a PostgreSQL URL."""
_ASK_SECS = 3.0
_FULL_SHARE = 0.75
_PREFIXES = "@:+!|-"
"""What systemd allows before a program."""

_FIRST_WORD = re.compile(rf'[{_PREFIXES}]*(?:"((?:\\.|[^"\\])*)"|(\S*))')
_ESCAPED = re.compile(r"\\(.)")
_PASSING_PLACES = ("home", "root", "tmp", "run")
"""Directories of the root where whatever lies may be changed by others, or be gone tomorrow."""


def _binary_path(context: CheckContext) -> Iterator[Finding]:
    """Whether the unit of this role starts the program that runs here."""
    name = (
        f"svc-{context.settings.role if context.settings.role == 'all' else context.role}.service"
    )
    units = [path for each in context.program.unit_directories if (path := each / name).is_file()]
    if not units:
        yield ok(f"there is no systemd unit {name}; this program is {context.program.path}")
        return
    binary = _started_by(units[0])
    if binary is None:
        yield warn(f"{units[0]} has no ExecStart", "install the unit of this release again")
        return
    path = Path(os.path.realpath(binary))
    if not path.exists():
        yield fail(
            f"{units[0]} starts {binary}, which does not exist",
            "put the program there, or correct ExecStart and run: systemctl daemon-reload",
        )
    elif path.parts[1:2] and path.parts[1] in _PASSING_PLACES:
        yield warn(
            f"{units[0]} starts {binary}, in a home or temporary directory",
            "keep the program where only root can change it",
        )
    elif path != context.program.path:
        yield warn(
            f"{units[0]} starts {binary}, and this program is {context.program.path}",
            "check with the unit's own program, or correct ExecStart",
        )
    else:
        yield ok(f"{units[0]} starts {binary}")


def _started_by(unit: Path) -> str | None:
    """The program of the last ``ExecStart=``; its drop-ins are not read."""
    with open_regular(unit) as file:
        text = file.read(MOST_UNIT_BYTES).decode("utf-8", "replace")
    found = None
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals and key.strip() == "ExecStart" and value.strip():
            found = first_word(value.strip())
    return found


def first_word(line: str) -> str:
    """The program of a command line, as systemd reads that: unquoted, without its prefixes."""
    word = _FIRST_WORD.match(line)
    assert word is not None  # it matches any line
    quoted, plain = word[1], word[2]
    text = plain if quoted is None else _ESCAPED.sub(r"\1", quoted)
    return text.lstrip(_PREFIXES).replace("%%", "%")


def _credentials(context: CheckContext) -> Iterator[Finding]:
    """Files with secrets that the configuration names: there, and closed to others."""
    settings = context.settings
    named: list[tuple[str, str | None, bool]] = [
        ("join.token_file", settings.join.token_file, False)
    ]
    if context.role == "authority":
        named.append(("accounts.passkeys.key", settings.accounts.passkeys.key, True))
        place = settings.store_url
        parameters = parse_qs("" if place is None else place.rest.partition("?")[2])
        for name in _SECRET_FILES:
            named.append((f"store_url: {name}", parameters.get(name, [None])[0], True))
    count, has_joined = 0, os.path.lexists(context.state / "identity")
    for key, path, is_needed in named:
        if path is None:
            continue
        count += 1
        # A node that has joined reads no token any more.
        uid = context.uid if is_needed or not has_joined else 0
        finding = private_file(Path(path), key, uid)
        if finding is not None and (is_needed or os.path.lexists(path)):
            yield finding
    yield ok(f"files with secrets that are named: {count}; none is open to others")


def private_file(path: Path, key: str, uid: int, *, is_mounted: bool = False) -> Finding | None:
    """What is wrong with a file that holds a secret; None: nothing.

    Args:
        uid: Who has to read it: the role's user.
        is_mounted: Others may read it, as those that an orchestrator mounts.
    """
    try:
        found = os.stat(path)
    except OSError as refused:
        why = (refused.strerror or "cannot be read").lower()
        return fail(f"{key}: {path}: {why}", f"make the file, or correct {key}")
    mode = stat.S_IMODE(found.st_mode)
    if not stat.S_ISREG(found.st_mode):
        return fail(f"{key}: {path} is not a regular file", f"correct {key}")
    if mode & (0o022 if is_mounted else 0o077):
        return fail(
            f"{key}: {path}: mode {mode:04o} opens a secret to other users",
            f"run: chmod {'go-w' if is_mounted else 'go-rwx'} {shlex.quote(str(path))}",
        )
    if not os.access(path, os.R_OK, effective_ids=True):
        return fail(f"{key}: {path} cannot be read by uid {os.geteuid()}", AS_THE_ROLE)
    # Root reads every file; the role, which has to, may not.
    if uid not in (0, found.st_uid) and not mode & 0o044:
        return fail(
            f"{key}: {path} belongs to uid {found.st_uid}: the role, uid {uid}, cannot read it",
            f"run: chown {uid} {shlex.quote(str(path))}",
        )
    return None


def _disk_room(context: CheckContext) -> Iterator[Finding]:
    yield judged_room(context.state, "the state directory")


def _spool(context: CheckContext) -> Iterator[Finding]:
    """Rows that no signed head covers yet, in the room that the configuration gives them."""
    root = context.state / SPOOL
    used = sum(_size(path) for path in root.rglob("*") if DAMAGED not in path.parts)
    most = context.settings.proxy.spool_max_bytes
    text = f"the audit spool uses {sized(used)} of {sized(most)}"
    if used > _FULL_SHARE * most:
        yield warn(
            text,
            "restore the way to Authority, or raise proxy.spool_max_bytes: a session whose record "
            "does not fit is refused",
        )
    yield ok(text)


def _recordings(context: CheckContext) -> Iterator[Finding]:
    """At a Connector: what Authority has not confirmed; at Authority: the disk that has it all."""
    if context.role == "authority":
        named = context.settings.recordings.directory
        root = Path(named) if named else context.state / RECORDINGS
        if root.is_dir():
            yield judged_room(root, "recordings")
        else:
            yield ok("no recording has come yet")
        return
    paths = list((context.state / RECORDINGS).glob("*.rec"))
    used, most = sum(map(_size, paths)), context.settings.recordings.buffer_max_bytes
    text = f"recordings that Authority has not confirmed: {len(paths)}, {sized(used)} of "
    text += sized(most)
    if used > _FULL_SHARE * most:
        yield warn(
            text,
            "restore the way to Authority, see the Connector's log for what it refuses, or raise "
            "recordings.buffer_max_bytes: sessions that have to be recorded are refused",
        )
    yield ok(text)


def _size(path: Path) -> int:
    """Of a file, which the role may remove at any moment; of anything else nothing."""
    try:
        found = os.lstat(path)
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def _damaged(context: CheckContext) -> Iterator[Finding]:
    """Files that could not be read, and were moved out of the way."""
    folders = [context.state / DAMAGED, *context.state.glob(f"*/{DAMAGED}")]
    found = [path for folder in folders if folder.is_dir() for path in sorted(folder.iterdir())]
    if found:
        yield warn(
            f"damaged files that were set aside: {len(found)}, the last is {found[-1]}",
            "find out what damaged them, keep them for whoever looks into it, then remove them",
        )
    yield ok("no damaged file was set aside")


def _running(context: CheckContext) -> Iterator[Finding]:
    running = is_running(context.base_state)
    if running is None:
        yield info("this system does not tell whether the role runs")
    else:
        yield ok("the role runs") if running else info("the role does not run")


def _resident(context: CheckContext) -> Iterator[Finding]:
    try:
        answer = ask_resident(context.state / RUN_DIRECTORY, {"ask": "status"}, _ASK_SECS)
    except SvcError as refused:
        yield warn(refused.text, "stop svc up, and start it again")
        return
    if answer is None:
        yield info("svc up does not run: there are no local endpoints", "start it with: svc up")
    else:
        yield ok("svc up runs, and answers")


CHECKS = (
    Check("service.binary_path", NODES, _binary_path),
    Check("service.running", NODES, _running, needs_state=True),
    Check("service.credentials", NODES, _credentials),
    Check("service.disk_room", ROLES, _disk_room, needs_state=True),
    Check("service.spool", ("proxy",), _spool, needs_state=True),
    Check("service.recordings", ("authority", "connector"), _recordings, needs_state=True),
    Check("service.damaged", NODES, _damaged, needs_state=True),
    Check("service.resident", ("client",), _resident),
)
