"""Checks of the Authority's store; it is opened to read only, and nothing is locked."""

from __future__ import annotations

import re
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

from svc.audit.checkpoint.anchor import AnchorDirectory
from svc.audit.state.anchor import StateAnchor, check_anchor
from svc.audit.state.in_force import StateView
from svc.config import StoreUrl
from svc.interfaces.copies import IStoreCopies
from svc.interfaces.store import ITransaction
from svc.model.doctor import Finding, fail, info, ok, warn
from svc.model.store.migration import StoreStanding
from svc.ops.doctor.check import Check
from svc.ops.doctor.context import CheckContext, NotChecked
from svc.ops.doctor.room import judged_room

_AUTHORITY = ("authority",)
_REMOTE = re.compile(r"(?:[^@?/]*@)?(?P<shown>[^@?/]*/[^@?/]*)(?:\?.*)?\Z", re.DOTALL)
RESTORE = "restore the store and its keys from one and the same backup"


def shown_url(place: StoreUrl) -> str:
    """A store's URL without user, password and parameters; only what has none is shown whole."""
    if place.scheme == "sqlite":
        return f"{place.scheme}://{place.rest}"
    found = _REMOTE.match(place.rest)
    return f"{place.scheme}://{found['shown'] if found else '...'}"


def _reachable(context: CheckContext) -> Iterator[Finding]:
    place = context.settings.store_url
    assert place is not None  # the reading refuses an Authority without it
    context.store.status()
    if _is_missing(context):
        yield fail(
            f"{shown_url(place)} does not exist",
            "correct store_url, or make the cluster with: svc init",
        )
    else:
        yield ok(f"{shown_url(place)} answers")


def _is_missing(context: CheckContext) -> bool:
    """A store in a file that is not there; a database has told so by itself."""
    files = _files(context)
    return bool(files) and not files[0].exists()


def _files(context: CheckContext) -> list[Path]:
    place = context.store.place
    if not IStoreCopies.providedBy(place.factory):
        return []
    return [Path(each) for each in place.factory.files(place.url)]


def _migrations(context: CheckContext) -> Iterator[Finding]:
    status = context.store.status()
    names = ", ".join(status.ids)
    if status.standing is StoreStanding.CURRENT:
        yield ok(f"current: {status.level} ({status.count} applied)")
    elif status.standing is StoreStanding.PENDING:
        yield warn(
            f"pending: {names}",
            "stop the writers, take a backup, then run: svc authority store migrate",
        )
    elif status.standing is StoreStanding.UNKNOWN_APPLIED:
        yield fail(
            f"unknown-applied: this build does not know {names}",
            "run the build that applied them, or a newer one",
        )
    else:
        yield fail(f"broken: the ledger has a gap or a changed checksum at {names}", RESTORE)


def _pairing(context: CheckContext) -> Iterator[Finding]:
    """Whether the store is the one that the keys and the anchor beside it were kept of."""
    cluster = context.settings.cluster
    anchor = StateAnchor(context.state / "anchor")
    head = AnchorDirectory(context.state / "anchor").newest()
    view, tip = anchor.checkpoint() or StateView(), anchor.tip()

    def look(tx: ITransaction) -> tuple[str | None, int, bytes | None]:
        check_anchor(tx.state, view, tip)
        size = 0 if head is None else head.head.tree_size
        rows = tx.audit.rows(size, 1) if size else ()
        found = rows[0].hash if rows and rows[0].seq == size else None
        return tx.schema.fact("cluster"), tx.audit.head().seq, found

    whose, records, found = context.store.look("doctor pairing", look)
    if whose is not None and whose != cluster:
        yield fail(
            f"the store is of the cluster {whose}, the configuration of {cluster}",
            "correct store_url or cluster",
        )
    if head is not None and found != head.head.last_hash:
        yield fail(
            f"the store has {records} records and not the one that the signed head over "
            f"{head.head.tree_size} names: it is older than its keys, or another one",
            RESTORE,
        )
    yield ok(f"store, keys and anchor belong together, over {records} records")


def _disk_room(context: CheckContext) -> Iterator[Finding]:
    files = _files(context)
    if files:
        yield judged_room(files[0].parent, "the store")
    else:
        yield info(
            "the store is not on this machine: its disk is not visible here",
            "watch the disk of the database server",
        )


def _private(context: CheckContext) -> Iterator[Finding]:
    """A start refuses a store in a file that others may read, or a directory they may write to."""
    files = [path for path in _files(context) if path.exists()]
    if not files:
        raise NotChecked("the store has no file here")
    for path, forbidden in ((files[0].parent, 0o022), *((each, 0o077) for each in files)):
        found = path.stat()
        mode = stat.S_IMODE(found.st_mode)
        if mode & forbidden:
            change = "go-w" if forbidden == 0o022 else "go-rwx"
            yield fail(
                f"{path}: mode {mode:04o} lets other users in",
                f"run: chmod {change} {shlex.quote(str(path))}",
            )
        if found.st_uid != context.uid:
            yield fail(
                f"{path} belongs to uid {found.st_uid}, and the role's files to uid {context.uid}",
                "correct its owner",
            )
    yield ok(f"{files[0]} is private")


CHECKS = (
    Check("store.reachable", _AUTHORITY, _reachable),
    Check("store.migrations", _AUTHORITY, _migrations),
    Check("store.pairing", _AUTHORITY, _pairing),
    Check("store.private", _AUTHORITY, _private),
    Check("store.disk_room", _AUTHORITY, _disk_room),
)
