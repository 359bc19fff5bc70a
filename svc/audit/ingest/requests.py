"""Checks a batch of requests that a Proxy recorded: each entry, against Authority's own sessions.

Person, resource and kind of a request are those of the session that Authority granted to this
very Proxy, so a batch says none of them (rules R25, R29).  The first bad entry is named.  Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from attrs import frozen

from svc.audit.ingest.facts import FactForm, check_context
from svc.audit.log.entries import DECISIONS, MAX_POLICIES
from svc.audit.log.forms import check_time, exact_text, text
from svc.audit.log.record import MAX_TEXT, is_storable
from svc.errors import Malformed
from svc.model.audit.batch import LARGEST, RequestBatch, digest_of, read_batch
from svc.model.audit.decision_ids import greatest_id, least_id, origin_digits
from svc.model.audit.spool import SpoolRow
from svc.model.ids import is_random_id
from svc.model.session.ranges import MAX_RANGE, RequestRange
from svc.model.session.recorded import RangedRecord
from svc.model.session.session import Session

SessionRow = Callable[[str], Session | None]
"""``session(uid)``: a session that Authority granted, as the record of its opening says."""

_NEEDED = frozenset(
    ["action", "cedar_action", "decision", "decision_id", "session", "session_n", "time"]
)
_KNOWN = _NEEDED | {"context", "frames", "policies", "range", "reason"}


@frozen
class GatedKind:
    """What Authority knows of a kind whose requests are decided.

    Attributes:
        resource_type: Of its resources, in Cedar.
        actions: What each counts as.
    """

    resource_type: str
    actions: Mapping[str, str]


def no_session(_uid: str) -> Session | None:
    """Knows none."""
    return None


def check_batch(
    row: SpoolRow,
    record: Mapping[str, Any],
    kinds: Mapping[str, GatedKind],
    facts: Mapping[str, FactForm],
    session_row: SessionRow,
) -> RequestBatch:
    """The batch of *record*, once everything in it is good.

    Raises:
        Malformed: naming the first thing that is not.
    """
    batch = read_batch(record, row.personal)
    origin = batch.place.origin
    of_header = [
        _kind_of(session_row(one.session_uid), one.resource_type, origin, kinds)
        for one in batch.headers
    ]
    seen: set[str] = set()
    good: set[tuple[object, ...]] = set()
    digits, hidden = origin_digits(origin), list[tuple[int, str]]()
    for index, (entry, written) in enumerate(zip(batch.entries, batch.texts, strict=True)):
        try:
            _check_entry(entry, of_header[entry["session"]], digits, _is_short(written), good)
            context = entry.get("context")
            if context is not None:
                paths = check_context("request.context", context, facts)
                hidden += ((index, path) for path in sorted(paths))
        except Malformed as refused:
            what = refused.text.removeprefix("audit row: ")
            raise Malformed(f"request batch: entry {index}: {what}") from None
        seen.add(entry["decision_id"])
    if len(seen) != len(batch.entries):
        raise Malformed("request batch: a decision id is in it twice")
    if [(one.index, one.path) for one in batch.personal] != hidden:
        raise Malformed("request batch: the personal values beside it are not those that it hides")
    if (record.get("decision_id"), record["batch"]["last_id"]) != (
        least_id(min(seen)),
        greatest_id(max(seen)),
    ):
        raise Malformed("request batch: it is not filed under the ids of its decisions")
    return batch


def decision_ids(batch: RequestBatch) -> tuple[str, ...]:
    """Of its requests, ascending."""
    return tuple(sorted(str(entry["decision_id"]) for entry in batch.entries))


def ranged_records(batch: RequestBatch) -> tuple[RangedRecord, ...]:
    """What a good batch says of its sessions, to be held against their checkpoints (rule R25).

    A request that does not say which bytes it is about matches no checkpoint.
    """
    found = []
    for entry in batch.entries:
        first, end = entry.get("range", (0, 0))
        frames = bytes.fromhex(entry["frames"]) if "frames" in entry else bytes(32)
        range_ = RequestRange(n=entry["session_n"], offset=first, size=end - first, tags=frames)
        uid = batch.headers[entry["session"]].session_uid
        found.append(RangedRecord(uid, range_, allowed=entry["decision"] == "allow"))
    return tuple(found)


def _kind_of(
    session: Session | None, resource_type: str, origin: str, kinds: Mapping[str, GatedKind]
) -> GatedKind:
    if session is None or session.proxy_id != origin:
        raise Malformed("request batch: it is of a session that this Proxy was not granted")
    kind = kinds.get(session.kind)
    if kind is None:
        raise Malformed("request batch: the kind of a session has no gate, or is not enabled")
    if kind.resource_type != resource_type:
        raise Malformed("request batch: a session's resource is of another type")
    return kind


@lru_cache(maxsize=64)
def _are_members(names: tuple[str, ...]) -> bool:
    """Whether an entry has what it needs, and nothing that nobody knows."""
    return _NEEDED <= set(names) <= _KNOWN


def _is_short(written: bytes) -> bool:
    """Whether no text in an entry can be too long, or hold NUL."""
    return len(written) <= MAX_TEXT and b"\\u0000" not in written


_text = lru_cache(4096)(text)
"""Names of policies and reasons are few."""


def _check_entry(
    entry: Mapping[str, Any],
    kind: GatedKind,
    digits: str,
    is_short: bool,
    good: set[tuple[object, ...]],
) -> None:
    """Check one entry; *good* is what others of the batch said that it may say too."""
    if not _are_members(tuple(entry)):
        raise Malformed("its members are not those of a request")
    said = _said(entry)
    if (id(kind), *said) not in good:
        _check_said(said, kind)
        good.add((id(kind), *said))
    decision_id = exact_text(entry["decision_id"])
    if not is_random_id(decision_id) or not decision_id.startswith(digits):
        raise Malformed("its decision id is not one of its Proxy's")
    check_time(exact_text(entry["time"]))
    _check_transport(entry)
    context = entry.get("context")
    if context is None:
        if entry["decision"] == "allow":
            raise Malformed("an allowed request is there without its facts")
    elif type(context) is not dict or not (is_short or is_storable(context)):
        raise Malformed("its facts are malformed, too long or contain NUL")


def _said(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """What many requests of a batch say alike: action, what it counts as, decision, why."""
    policies = entry.get("policies", [])
    if type(policies) is not list or len(policies) > MAX_POLICIES:
        raise Malformed("its policies are malformed")
    said = (
        entry["cedar_action"],
        entry["action"],
        entry["decision"],
        entry.get("reason", ""),
        *policies,
    )
    for one in said:
        exact_text(one)
    return said


def _check_said(said: tuple[str, ...], kind: GatedKind) -> None:
    cedar_action, action, decision, *reasons = said
    if kind.actions.get(cedar_action) != action:
        raise Malformed("it names no action of its session's kind, or counts it as another")
    if decision not in DECISIONS:
        raise Malformed("it has no decision")
    for one in reasons:
        _text(one)


def _check_transport(entry: Mapping[str, Any]) -> None:
    if "frames" in entry:
        digest_of(entry["frames"])
    if "range" not in entry:
        return
    found = entry["range"]
    if type(found) is not list or len(found) != 2 or any(type(one) is not int for one in found):
        raise Malformed("its range is malformed")
    if not 0 <= found[0] <= found[1] <= LARGEST or found[1] - found[0] > MAX_RANGE:
        raise Malformed("its range is malformed")
