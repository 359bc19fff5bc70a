"""Checks of the Authority's store; it is opened to read only, and nothing is locked."""

from __future__ import annotations

import re
import shlex
import stat
from collections.abc import Iterator, Sequence

from svc.audit.state.anchor import StateAnchor, check_anchor
from svc.audit.state.in_force import StateView
from svc.config import StoreUrl
from svc.interfaces.store import ITransaction
from svc.model.doctor import Finding, fail, info, ok, warn
from svc.model.store.migration import StoreStanding
from svc.ops.doctor.check import Check
from svc.ops.doctor.context import CheckContext, NotChecked
from svc.ops.doctor.room import judged_room
from svc.ops.doctor.trust import newest_head

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
    if not context.store.is_missing:
        yield ok(f"{shown_url(place)} answers")
        return
    context.require_state()
    text = f"{shown_url(place)} does not exist"
    if context.was_never_started:
        yield info(f"{text} yet: the Authority makes it at its first start")
    else:
        yield fail(text, f"mount its disk, or correct store_url; if it is lost, {RESTORE}")


def _migrations(context: CheckContext) -> Iterator[Finding]:
    status = context.store.status()
    if context.store.is_missing:
        context.require_state()
        raise NotChecked("the store does not exist")
    names = _named(status.ids)
    if status.standing is StoreStanding.CURRENT:
        yield ok(f"current: {status.level} ({status.count} applied)")
    elif status.standing is StoreStanding.PENDING and not status.count and _is_first(context):
        yield info("the database has no tables yet: the Authority makes them at its first start")
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


def _named(ids: Sequence[str]) -> str:
    """The first and the last, and how many there are."""
    return f"{ids[0]} to {ids[-1]} ({len(ids)})" if len(ids) > 1 else "".join(ids)


def _is_first(context: CheckContext) -> bool:
    return context.was_never_started and context.settings.store_auto_migrate


def _pairing(context: CheckContext) -> Iterator[Finding]:
    """Whether the store is the one that the keys and the anchor beside it were kept of."""
    cluster = context.settings.cluster
    anchor = StateAnchor(context.state / "anchor")
    if not context.keys_root.is_file():
        yield fail(f"{context.keys_root} does not exist: the store has no keys", RESTORE)
        return
    head = newest_head(context)
    if head is None:
        raise NotChecked("no signed head is kept to compare the store with; see audit.head")
    view, tip = anchor.checkpoint() or StateView(), anchor.tip()

    def look(tx: ITransaction) -> tuple[str | None, int, bytes | None]:
        check_anchor(tx.state, view, tip)
        size = head.head.tree_size
        rows = tx.audit.rows(size, 1) if size else ()
        found = rows[0].hash if rows and rows[0].seq == size else None
        return tx.schema.fact("cluster"), tx.audit.head().seq, found

    whose, records, found = context.store.look("doctor pairing", look)
    if whose is not None and whose != cluster:
        yield fail(
            f"the store is of the cluster {whose}, the configuration of {cluster}",
            "correct store_url or cluster",
        )
    if found != head.head.last_hash:
        yield fail(
            f"the store has {records} records and not the one that the signed head over "
            f"{head.head.tree_size} names: it is older than its keys, or another one",
            RESTORE,
        )
    yield ok(f"store, keys and anchor belong together, over {records} records")


def _disk_room(context: CheckContext) -> Iterator[Finding]:
    files = context.store.files
    if files:
        yield judged_room(files[0].parent, "the store")
    else:
        yield info(
            "the store is not on this machine: its disk is not visible here",
            "watch the disk of the database server",
        )


def _private(context: CheckContext) -> Iterator[Finding]:
    """A start refuses a store in a file that others may read, or a directory they may write to."""
    files = [path for path in context.store.files if path.exists()]
    if not files:
        raise NotChecked("there is no file of the store here")
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
    Check("store.pairing", _AUTHORITY, _pairing, needs_state=True),
    Check("store.private", _AUTHORITY, _private, needs_state=True),
    Check("store.disk_room", _AUTHORITY, _disk_room, needs_state=True),
)
