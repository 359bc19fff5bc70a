"""Adopts the rows of a store that has no signed records yet (rule R8).

A store of before these records holds policies and people that nothing stands
behind.  They are never taken over silently: an operator looks at them with
``svc authority state adopt``, which leaves the fingerprint of what was looked at
outside the store, and the next start takes over exactly that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from attrs import frozen

from svc.audit.checkpoint.startup_request import StartupRequestFile
from svc.authority.state.recorder import Recorder, operator
from svc.authority.state.tables import rows_now
from svc.errors import ConfigError, Fault, SvcError
from svc.interfaces.store import ITransaction
from svc.model.audit.events import STATE_ADOPT
from svc.model.audit.record import Actor
from svc.model.audit.state import MAX_ROWS, StateEntry
from svc.model.canonical import encode


class NotAdopted(SvcError):
    """A store whose rows no signed record covers, and that nobody adopted."""

    fault = Fault.PRECONDITION
    reason = "state_unadopted"


def fingerprint(entries: Iterable[StateEntry]) -> str:
    """One digest, in hex, of all these rows."""
    rows = sorted((one.subject, (one.digest or b"").hex()) for one in entries)
    return sha256(b"svc-state-rows-v1\0" + encode([list(row) for row in rows])).hexdigest()


def counts(entries: Iterable[StateEntry]) -> dict[str, int]:
    """How many rows there are of each sort."""
    return dict(sorted(Counter(one.sort for one in entries).items()))


def adopt(tx: ITransaction, recorder: Recorder, actor: Actor, at: float) -> int:
    """Put every row of *tx* in force unchanged; return how many differ from what was in force.

    Raises:
        StateUnsigned: there are records of state that do not verify.
    """
    seen, stored = recorder.rows(tx).seen, rows_now(tx, at)
    changed = [
        one
        for subject, one in sorted(stored.items())
        if (known := seen.get(subject)) is None or known.digest != one.digest
    ]
    changed += [
        StateEntry(subject, None)
        for subject, one in sorted(seen.all().items())
        if one.digest is not None and subject not in stored and (one.until or at + 1) > at
    ]
    for start in range(0, len(changed), MAX_ROWS):
        part = changed[start : start + MAX_ROWS]
        recorder.append(tx, STATE_ADOPT, actor, details={"count": len(part)}, state=part)
    return len(changed)


@frozen
class AdoptionRequest:
    """What an operator reviewed: the fingerprint of all rows, the time, and the operator's uid."""

    fingerprint: str
    at: float
    uid: int


def adoption_request_file(path: Path) -> StartupRequestFile[AdoptionRequest]:
    """The file in which ``svc authority state adopt`` leaves that request."""

    def form_of(request: AdoptionRequest) -> Mapping[str, object]:
        return {"fingerprint": request.fingerprint, "at": request.at, "uid": request.uid}

    def request_of(form: Mapping[str, Any]) -> AdoptionRequest:
        return AdoptionRequest(str(form["fingerprint"]), float(form["at"]), int(form["uid"]))

    def refused(text: str) -> SvcError:
        return ConfigError(str(path), text.removeprefix(f"{path}: "))

    return StartupRequestFile(path=path, form_of=form_of, request_of=request_of, refused=refused)


def adopt_requested(tx: ITransaction, recorder: Recorder, request: AdoptionRequest | None) -> None:
    """Put exactly the rows in force that the operator reviewed.

    Raises:
        NotAdopted: nobody asked for it, or the rows changed since.
    """
    if request is None:
        raise NotAdopted(
            "the store contains rows without a signed record; review them and adopt them with "
            "`svc authority state adopt`"
        )
    if fingerprint(rows_now(tx, request.at).values()) != request.fingerprint:
        raise NotAdopted(
            "the store's rows have changed since `svc authority state adopt` showed them; run "
            "it again"
        )
    adopt(tx, recorder, operator(request.uid), request.at)
