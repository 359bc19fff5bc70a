"""Computes what is in force from signed records alone (rule R8).

The ledger holds, for every protected row there should be, the digest that the
newest signed record of its subject gives.  It goes from one record to the next
only where the number follows, the record names the one before by its hash, the
chain hash is its own, and the signature is that of a key of this purpose under
the cluster's root.  What cannot be followed changes nothing.

Threads: a view is replaced whole, on the reactor, and never changed; whoever
looks inside a transaction takes one view and adds what that transaction sees
beyond it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from hashlib import sha256
from itertools import pairwise
from math import inf
from types import MappingProxyType
from typing import TypeVar

from attrs import define, evolve, field, frozen

from svc.errors import AuditBroken, Malformed, SvcError
from svc.interfaces.audit import OriginVerifier
from svc.interfaces.facets import IStateLog
from svc.model.audit.ledger import GENESIS
from svc.model.audit.record import chain_hash
from svc.model.audit.standing import StandingSession, standing_session
from svc.model.audit.state import (
    StateChange,
    StateEntry,
    StateHead,
    StateRow,
    policy_version,
    read_change,
)
from svc.model.canonical import Json, decode
from svc.model.certificate import SignerCallable
from svc.model.signing import Signed

BATCH = 512
REMEMBERED = 4096
GRACE_SECS = 86400.0
"""How long an entry is kept past its time: a clock that is put back must not make rows strange."""


_Row = TypeVar("_Row")
_NONE: Mapping[str, StateEntry] = MappingProxyType({})
_NO_SESSIONS: Mapping[str, StandingSession] = MappingProxyType({})


class StateBroken(AuditBroken):
    """The records of state do not follow from one another; the text names the first bad one."""

    reason = "state_broken"


@frozen
class OriginKey:
    """The key that signs records of state: a signer for that purpose, and its certificate (DER).

    Attributes:
        ends_at: When the certificate ends, in seconds since the epoch.
        begins_at: When it begins.
    """

    sign: SignerCallable
    certificate: bytes = field(repr=False)
    ends_at: float = inf
    begins_at: float = 0.0
    key_id: str = field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "key_id", sha256(self.certificate).hexdigest())


@frozen
class StateView:
    """What is in force after the record *n*; never changed.

    Attributes:
        policy: The greatest version of the policy that a record names.
        catalog: The greatest revision of the catalog that a record names.
        sessions: Those that stand on rows, by uid, until their Proxy says that they are over, or
            the rows are forgotten.
    """

    n: int = 0
    seq: int = 0
    hash: bytes = GENESIS
    catalog: int = 0
    policy: int = 0
    entries: Mapping[str, StateEntry] = field(default=_NONE, repr=False)
    sessions: Mapping[str, StandingSession] = field(default=_NO_SESSIONS, repr=False)


@frozen
class VerifiedRecord:
    """One record of state that was verified."""

    seq: int
    hash: bytes
    change: StateChange = field(repr=False)


@frozen
class Seen:
    """What is in force as one transaction sees it."""

    n: int
    hash: bytes
    catalog: int
    policy: int
    _entries: Mapping[str, StateEntry] = field(repr=False)
    _newer: Mapping[str, StateEntry] = field(default=_NONE, repr=False)
    sessions: Mapping[str, StandingSession] = field(default=_NO_SESSIONS, repr=False)

    def get(self, subject: str) -> StateEntry | None:
        """The entry of a row that should be there; None where there should be none."""
        found = self._newer.get(subject) or self._entries.get(subject)
        return None if found is None or found.digest is None else found

    def unended(self, sort: str, at: float) -> list[str]:
        """The ids of the rows of one sort there should be and that end after *at*."""
        prefix = f"{sort}:"
        return [
            subject.removeprefix(prefix)
            for entries in (self._entries, self._newer)
            for subject, one in entries.items()
            if subject.startswith(prefix) and (found := self.get(subject)) is not None
            if one is found and (one.until is None or one.until > at)
        ]

    def all(self) -> dict[str, StateEntry]:
        """Every row there should be."""
        return {**self._entries, **self._newer} if self._newer else dict(self._entries)


@frozen
class Tail:
    """What was last seen beyond a view: many transactions of one commit see it one by one."""

    base: StateView
    end: StateView
    newer: Mapping[str, StateEntry] = field(repr=False)


@define
class StateLedger:
    """Follows the records of state.

    Args:
        verify: Judges the signature of each.
        view: What this process goes by.

    Attributes:
        told: What the records of a row say of it, by its subject and digest, of rows that were
            missing or altered.  To find it out, every record is read.
    """

    verify: OriginVerifier
    view: StateView = field(factory=StateView)
    told: dict[tuple[str, bytes], Mapping[str, str]] = field(factory=dict, init=False)
    _known: dict[bytes, StateChange] = field(factory=dict, init=False)
    _entries: dict[str, tuple[object, StateEntry]] = field(factory=dict, init=False)
    _tail: Tail | None = field(default=None, init=False)

    def begin_from(self, view: StateView) -> None:
        """Start from *view*, and apply the records after it."""
        self.view = view

    def within(self, log: IStateLog) -> Seen:
        """What is in force for the transaction of *log*; cheap while nothing is newer.

        Raises:
            StateBroken: what is newer than the view does not verify.
        """
        view = self.view
        if log.tip() <= view.n:
            return self.known()
        tail = self._tail
        if tail is None or tail.base is not view or not self._holds(log, tail):
            tail = Tail(view, view, {})
        end, newer = self._overlaid(tail.end, self.ahead(log, tail.end))
        self._tail = tail = Tail(view, end, {**tail.newer, **newer})
        return Seen(
            n=end.n,
            hash=end.hash,
            catalog=end.catalog,
            policy=end.policy,
            entries=view.entries,
            newer=tail.newer,
            sessions=end.sessions,
        )

    def known(self) -> Seen:
        """What is in force by the view alone: where nothing newer is there, or verifies."""
        view = self.view
        return Seen(
            n=view.n,
            hash=view.hash,
            catalog=view.catalog,
            policy=view.policy,
            entries=view.entries,
            sessions=view.sessions,
        )

    def entry(self, subject: str, row: _Row, entry_of: Callable[[_Row], StateEntry]) -> StateEntry:
        """The entry of a row just read; made again only where the row is another than last time.

        Every session reads two: comparing costs a microsecond, a digest seven.
        """
        kept = self._entries.get(subject)
        if kept is None or not kept[0] == row:  # noqa: SIM201 - attrs makes the other of this one
            if len(self._entries) >= REMEMBERED:
                self._entries.clear()
            kept = (row, entry_of(row))
            self._entries[subject] = kept
        return kept[1]

    def check_end(self, log: IStateLog, seen: Seen) -> None:
        """Refuse a store whose newest record of state is not the newest that was seen.

        Raises:
            StateBroken: ``state_rolled_back``.
        """
        head = log.head()
        if (head.n, head.hash) != (seen.n, seen.hash):
            raise rolled_back(head, seen.n)

    def ahead(
        self, log: IStateLog, view: StateView, limit: int | None = None
    ) -> list[VerifiedRecord]:
        """The records past *view*, verified; at most *limit* (None: all).

        Raises:
            StateBroken: one of them does not follow.
        """
        links: list[VerifiedRecord] = []
        n, link_hash, seq = view.n, view.hash, view.seq
        while True:
            wanted = BATCH if limit is None else min(BATCH, limit - len(links))
            rows = log.since(n, wanted)
            for row in rows:
                link = self._link(row, n + 1, link_hash, seq)
                links.append(link)
                n, link_hash, seq = link.change.n, link.hash, link.seq
            if len(rows) < wanted or len(links) == limit:
                return links

    def install(self, links: Iterable[VerifiedRecord]) -> bool:
        """Apply these, if they are newer; return whether any was. On the reactor only."""
        newer = [link for link in links if link.change.n > self.view.n]
        if not newer:
            return False
        if newer[0].change.prev != self.view.hash or any(
            after.change.prev != before.hash for before, after in pairwise(newer)
        ):
            raise StateBroken(
                f"state record {newer[0].change.n}: it does not follow the record before it"
            )
        view, overlay = self._overlaid(self.view, newer)
        merged = {**view.entries, **overlay}
        entries = {name: one for name, one in merged.items() if one.digest is not None}
        self.view = evolve(view, entries=entries)
        return True

    def forget_past(self, now: float) -> None:
        """Drop what has meant nothing for a day.  On the reactor only."""
        end = now - GRACE_SECS
        kept = {
            name: one
            for name, one in self.view.entries.items()
            if one.until is None or one.until > end
        }
        if len(kept) < len(self.view.entries):
            self.view = evolve(self.view, entries=kept)
        self._keep_sessions(lambda one: any(each in kept for each in one.subjects))

    def sessions_over(self, proxy_id: str, is_over: Callable[[str], bool]) -> None:
        """A Proxy says which of its sessions are over, by uid.  On the reactor only."""
        self._keep_sessions(lambda one: one.proxy_id != proxy_id or not is_over(one.uid))

    def _keep_sessions(self, is_kept: Callable[[StandingSession], bool]) -> None:
        kept = {uid: one for uid, one in self.view.sessions.items() if is_kept(one)}
        if len(kept) < len(self.view.sessions):
            self.view = evolve(self.view, sessions=kept)

    def remember(self, link_hash: bytes, change: StateChange) -> None:
        """Spare the work of verifying a record that was verified, or made here."""
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        self._known[link_hash] = change

    @staticmethod
    def _holds(log: IStateLog, tail: Tail) -> bool:
        """Whether *log* has the very record that the tail ends with, and so all before it."""
        rows = log.since(tail.end.n - 1, 1)
        return bool(rows) and (rows[0].n, rows[0].hash) == (tail.end.n, tail.end.hash)

    def _overlaid(
        self, view: StateView, links: Iterable[VerifiedRecord]
    ) -> tuple[StateView, dict[str, StateEntry]]:
        """The view's numbers after *links*, and the entries that they bring."""
        overlay: dict[str, StateEntry] = {}
        sessions: dict[str, StandingSession] = {}
        policy, catalog = view.policy, view.catalog
        for link in links:
            for one in link.change.rows:
                overlay[one.subject] = one
                policy = max(policy, policy_version(one.subject))
            catalog = max(catalog, link.change.catalog or 0)
            session = link.change.session
            if session is not None:
                before = sessions.get(session.uid) or view.sessions.get(session.uid)
                sessions[session.uid] = session if before is None else before.with_more(session)
            view = evolve(view, n=link.change.n, seq=link.seq, hash=link.hash)
        if sessions:
            view = evolve(view, sessions={**view.sessions, **sessions})
        return evolve(view, policy=policy, catalog=catalog), overlay

    def _link(self, row: StateRow, n: int, prev: bytes, after: int) -> VerifiedRecord:
        """The record *n* that follows *prev*, verified."""
        if row.n != n:
            raise StateBroken(f"state record {n}: it is missing")
        if not row.canonical or row.seq <= after:
            raise StateBroken(f"state record {n}: it is not at its position in the log")
        if chain_hash(row.seq, row.prev_hash, row.canonical) != row.hash:
            raise StateBroken(f"state record {n}: it differs from the one that was hashed")
        change = self._known.get(row.hash)
        if change is None:
            change = self._verified(row)
            self.remember(row.hash, change)
        if (change.n, change.prev) != (n, prev):
            raise StateBroken(f"state record {n}: it was signed for another position")
        return VerifiedRecord(row.seq, row.hash, change)

    def _verified(self, row: StateRow) -> StateChange:
        try:
            record = decode(row.canonical)
            if not isinstance(record, Mapping):
                raise Malformed("state record: it is not an object")
            if sha256(row.certificate).hexdigest() != row.key_id or record["key_id"] != row.key_id:
                raise Malformed("state record: the certificate of its key is missing or differs")
            signed = Signed(row.canonical, row.signature, (row.certificate,))
            self.verify(signed, _seconds(record["time"]))
            return _change_of(record)
        except (SvcError, KeyError) as refused:
            why = refused.text if isinstance(refused, SvcError) else "a member is missing"
            raise StateBroken(f"state record {row.n}: {why}") from refused


def about_session(change: StateChange, uid: object, proxy_id: object) -> StateChange:
    """The change with what its record says of a session, if it says so of one."""
    found = standing_session(uid, proxy_id, (one.subject for one in change.rows))
    return change if found is None else evolve(change, session=found)


def _change_of(record: Mapping[str, Json]) -> StateChange:
    details = record.get("details")
    proxy_id = details.get("proxy_id") if isinstance(details, Mapping) else None
    return about_session(read_change(record["state"]), record.get("session_uid"), proxy_id)


def rolled_back(head: StateHead, n: int) -> StateBroken:
    """The refusal of a store whose records of state end elsewhere than is known."""
    return StateBroken(
        f"the store's records of state end at {head.n}, but record {n} is known here",
        reason="state_rolled_back",
    )


def _seconds(time: Json) -> float:
    try:
        return datetime.fromisoformat(str(time)).timestamp()
    except ValueError:
        raise Malformed("state record: its time is malformed") from None
