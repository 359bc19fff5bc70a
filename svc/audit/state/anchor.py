"""Stores the newest record of state, and the rows in force, outside the store.

``state.json`` names the newest record that this Authority went by; it is
replaced after each change.  ``state-rows.json`` is a checkpoint: what was in
force after one record, and which sessions stood on it, so that a start verifies
only what came later.  Both
lie in the anchor directory, are 0600, and are put in place whole.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import define, field
from twisted.internet.defer import DeferredLock
from twisted.logger import Logger

from svc.audit.state.in_force import StateBroken, StateLedger, StateView, rolled_back
from svc.interfaces.facets import IStateLog
from svc.model.audit.standing import StandingSession
from svc.model.audit.state import StateEntry, StateHead
from svc.runtime import durable
from svc.runtime.services import AsyncService, BackgroundTasks
from svc.runtime.threads import InThread, inline

CHECKPOINT_EVERY = 256

_log = Logger(namespace="svc_audit")


@define
class StateAnchor:
    """The two files.  Every method blocks on a disk."""

    path: Path

    def tip(self) -> StateHead | None:
        """The newest record that the file names, or None if there is no such file.

        Raises:
            StateBroken: it cannot be read.
        """
        form = self._read("state.json")
        return None if form is None else _head(form)

    def checkpoint(self) -> StateView | None:
        """The rows in force at the checkpoint, or None if there is none.

        Raises:
            StateBroken: it cannot be read.
        """
        form = self._read("state-rows.json")
        if form is None or "sessions" not in form:
            return None  # one of before says of no session what it stands on: all is verified again
        head = _head(form)
        try:
            entries = {str(row[0]): _entry(*row) for row in form["rows"]}
            catalog, policy = int(form["catalog"]), int(form["policy"])
            sessions = [_session(*row) for row in form["sessions"]]
        except (KeyError, TypeError, ValueError) as bad:
            raise _unreadable("state-rows.json") from bad
        return StateView(
            n=head.n,
            seq=head.seq,
            hash=head.hash,
            catalog=catalog,
            policy=policy,
            entries=entries,
            sessions={one.uid: one for one in sessions},
        )

    def keep(self, view: StateView, *, rows: bool = False) -> None:
        """Name the view's record; with *rows* keep what is in force as well."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        head = {"n": view.n, "seq": view.seq, "hash": view.hash.hex()}
        if rows:
            form = {
                **head,
                "catalog": view.catalog,
                "policy": view.policy,
                "rows": [
                    [one.subject, None if one.digest is None else one.digest.hex(), one.until]
                    for one in view.entries.values()
                ],
                "sessions": [
                    [one.uid, one.proxy_id, sorted(one.subjects)] for one in view.sessions.values()
                ],
            }
            durable.replace(self.path / "state-rows.json", json.dumps(form).encode() + b"\n")
        durable.replace(self.path / "state.json", json.dumps(head).encode() + b"\n")

    def set_aside(self) -> None:
        """Start without: an older store was restored.  Every record is verified again."""
        for name in ("state.json", "state-rows.json"):
            path = self.path / name
            if path.exists():
                durable.move(path, self.path / f"{name}.lost")

    def _read(self, name: str) -> Mapping[str, Any] | None:
        try:
            form = json.loads((self.path / name).read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as bad:
            raise _unreadable(name) from bad
        if not isinstance(form, dict):
            raise _unreadable(name)
        return form


@define(slots=False, eq=False)
class StateKeeper(AsyncService):
    """Keeps the anchor up to date with the ledger.

    Args:
        tasks: Owns the writing that nobody awaits; must outlive this service.
    """

    ledger: StateLedger
    anchor: StateAnchor
    tasks: BackgroundTasks
    in_thread: InThread = inline
    _kept: int = field(default=0, init=False)
    _rows_kept: int = field(default=0, init=False)
    _is_due: bool = field(default=False, init=False)
    _line: int = field(default=0, init=False)
    _lock: DeferredLock = field(factory=DeferredLock, init=False)

    def advanced(self) -> None:
        """The ledger has advanced; does not block."""
        if not self._is_due:
            self._is_due = True
            self.tasks.spawn("keep the state anchor", self._keep_or_report())

    def went_on_from(self, n: int) -> None:
        """At start: the checkpoint is of this record."""
        self._rows_kept = n

    def begin_again(self) -> None:
        """Forget what was in force: it is of a line that was given up.  On the reactor.

        A stop before the next pass must not put back what was set aside, nor may a keeping
        that is under way.
        """
        self._line += 1
        self._rows_kept = 0
        self.ledger.begin_from(StateView())
        self.anchor.set_aside()

    async def stop(self) -> None:
        """Write everything, so that the next start has nothing to verify."""
        if self.ledger.view.n:
            try:
                await self._keep(rows=True)
            except OSError as failed:
                _log.error("the state anchor was not written", reason=str(failed))

    async def _keep_or_report(self) -> None:
        try:
            await self._keep()
        except OSError as failed:
            # The next change tries again; a start verifies the longer stretch.
            _log.error("the state anchor was not written", reason=str(failed))

    async def _keep(self, *, rows: bool = False) -> None:
        await self._lock.acquire()
        try:
            self._is_due = False
            view, line = self.ledger.view, self._line
            rows = rows or view.n - self._rows_kept >= CHECKPOINT_EVERY
            await self.in_thread(lambda: self.anchor.keep(view, rows=rows))
            if line != self._line:
                await self.in_thread(self.anchor.set_aside)
            elif rows:
                self._rows_kept = view.n
        finally:
            self._lock.release()


def check_anchor(log: IStateLog, view: StateView, tip: StateHead | None) -> None:
    """Refuse a store that is not the one the anchor was kept of.

    Args:
        view: The checkpoint, or the beginning.
        tip: What ``state.json`` names.

    Raises:
        StateBroken: ``state_rolled_back``.
    """
    for known in (StateHead(view.n, view.seq, view.hash), tip):
        if known is None or known.n == 0:
            continue
        rows = log.since(known.n - 1, 1)
        if not rows or (rows[0].n, rows[0].seq, rows[0].hash) != (known.n, known.seq, known.hash):
            raise rolled_back(log.head(), known.n)


def _head(form: Mapping[str, Any]) -> StateHead:
    try:
        head = StateHead(int(form["n"]), int(form["seq"]), bytes.fromhex(form["hash"]))
    except (KeyError, TypeError, ValueError) as bad:
        raise _unreadable("state.json") from bad
    return head


def _entry(subject: str, digest: str | None, until: int | None) -> StateEntry:
    return StateEntry(subject, None if digest is None else bytes.fromhex(digest), until)


def _session(uid: str, proxy_id: str, subjects: list[str]) -> StandingSession:
    return StandingSession(str(uid), str(proxy_id), frozenset(map(str, subjects)))


def _unreadable(name: str) -> StateBroken:
    return StateBroken(
        f"audit anchor: {name} cannot be read; remove it to verify every record from the beginning"
    )
