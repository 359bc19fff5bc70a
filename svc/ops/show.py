"""Reads records to show them: by a selection, newest first, in whatever state they are.

What cannot be read, is missing or was altered takes a place in the answer and ends nothing:
a damaged log is looked at more than any other.  Only verifying proves that one is whole.
"""

from __future__ import annotations

import pwd
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import define, field, frozen
from twisted.logger import Logger

from svc.audit.log import show
from svc.audit.log.entries import RequestSession, entry_record
from svc.audit.log.find import decisions_meant, find_entry, ids_beginning, opened_session
from svc.audit.log.selection import Selection
from svc.audit.log.verify import ChainFault, batch_at
from svc.errors import Malformed, NoSuchRow
from svc.interfaces.store import ITransaction
from svc.model.audit.batch import BATCH_EVENT, is_batch
from svc.model.audit.ledger import ChainRow, PersonalValue
from svc.model.audit.record import chain_hash
from svc.model.canonical import Json, decode
from svc.model.cluster.agent import caller_kind
from svc.model.cluster.node import TokenRole
from svc.model.ids import is_random_id
from svc.model.short_ids import (
    DECISION,
    LEAST_DECISION,
    LEAST_REQUEST,
    AmbiguousId,
    is_beginning,
    whole_id,
)
from svc.ops.store import why_unreadable

BATCH = 512
_log = Logger(namespace="svc_ops")
Shown = Mapping[str, Json]


@frozen
class ShownRecords:
    """What a look at the log gave.

    Attributes:
        shown: In order of the log.
        end: The number of its last record.
        more: Whether older records are wanted, too.
        before: The look was broken off here, to go on with what is before it; 0: it was not.
    """

    shown: list[Shown]
    end: int
    more: bool = False
    before: int = 0


@define
class LogReader:
    """Reads records of one snapshot.  Blocks.

    Attributes:
        rows: A look for the newest is broken off after so many; None: it goes to the first.
    """

    tx: ITransaction
    rows: int | None = None
    _names: dict[tuple[str, str], str | None] = field(factory=dict, init=False)
    _askers: dict[str, str] = field(factory=dict, init=False)
    _sessions: dict[str, RequestSession | None] = field(factory=dict, init=False)

    def newest(self, selection: Selection, most: int, before: int = 0) -> ShownRecords:
        """The newest *most* that are wanted.

        Args:
            before: Of those before this number; 0: of all.
        """
        end = self._end()
        found: list[Shown] = []
        for count, each in enumerate(self._backwards(min(end, before - 1) if before else end)):
            if count == self.rows:
                last = each.seq if isinstance(each, ChainRow) else _last(each)
                return ShownRecords(found[::-1], end, before=last + 1)
            record = _record(each) if isinstance(each, ChainRow) else None
            if record is not None and selection.is_past(record):
                break
            found += reversed(self._wanted(each, record, selection))
            if len(found) > most:
                return ShownRecords(found[most - 1 :: -1], end, more=True)
        return ShownRecords(found[::-1], end)

    def after(self, selection: Selection, seq: int) -> ShownRecords:
        """The selected records of a batch after *seq*; its ``end`` is the last row read."""
        end = max(seq, min(self._end(), seq + BATCH))
        found: list[Shown] = []
        for each in self._stretch(seq + 1, end) if end > seq else ():
            record = _record(each) if isinstance(each, ChainRow) else None
            found += self._wanted(each, record, selection)
        return ShownRecords(found, end)

    def _wanted(
        self, each: ChainRow | Shown, record: Shown | None, selection: Selection
    ) -> list[Shown]:
        """What is to be shown of a row; of a batch its entries, in their order.

        What cannot be read may be what is looked for, so it is always told.
        """
        if record is None or not isinstance(each, ChainRow):
            return [self._shown(each)]
        found: list[Shown] = []
        if is_batch(record) and selection.event != BATCH_EVENT:
            return [
                self._entry(each, one) if "damaged" not in one else one
                for one in self._entries(each, record)
                if "damaged" in one or selection.wants(one, self._opened_by)
            ]
        if selection.wants(record, self._opened_by):
            found.append(self.one(each))
        return found

    def _entries(self, row: ChainRow, record: Shown) -> Iterator[dict[str, Any]]:
        """The entries of a batch as records, or a mark where they are not what was signed."""
        personal, unreadable = self._personal(row.seq)
        try:
            batch = batch_at(row, dict(record), personal)
        except ChainFault as fault:
            yield dict(show.damaged(row.seq, unreadable or fault.what))
            return
        for index in range(len(batch.entries)):
            yield entry_record(record, batch, index, self._session)

    def _entry(self, row: ChainRow, record: dict[str, Any]) -> Shown:
        return show.entry_document(row, record, self._name)

    def _session(self, uid: str) -> RequestSession | None:
        """Whose session it is, and of what."""
        if uid not in self._sessions:
            self._sessions[uid] = session_of(self.tx, uid)
        return self._sessions[uid]

    def numbered(self, seq: int) -> ShownRecords:
        """The record of this number, or a mark where it cannot be shown.

        Raises:
            NoSuchRow: the log ends before it.
        """
        if seq > self._end():
            raise NoSuchRow(f"audit log: there is no record {seq}")
        found: list[Shown] = []
        for each in self._stretch(seq, seq):
            found.append(self._shown(each))
            record = _record(each) if isinstance(each, ChainRow) else None
            if isinstance(each, ChainRow) and record is not None and is_batch(record):
                found += self._wanted(each, record, Selection())
        return ShownRecords(found, seq)

    def decided(self, word: str) -> ShownRecords:
        """Every record that names a decision.

        Where one cannot be read the whole log is looked through, and each that cannot is told.

        Args:
            word: Its id, or that of the session that it let open, or how either begins.

        Raises:
            AmbiguousId: several begin so.
            NoSuchRow: there is none.
        """
        decision = word.lower()
        try:
            meant = decisions_meant(self.tx, decision)
            decision = meant.get(whole_id(DECISION, decision, meant) or "", decision)
            found = [self.one(row) for row in self.tx.audit.by_decision(decision)]
            entry = find_entry(self.tx, decision)
            if entry is not None:
                record = entry_record(entry.record, entry.batch, entry.index, self._session)
                found.append(self._entry(entry.row, record))
        except AmbiguousId:
            raise
        except Exception as failed:
            # Whatever a damaged store answers.
            _log.debug("the whole log is read for a decision", reason=type(failed).__name__)
            found = self.newest(Selection(decision=decision), self._end()).shown
        if not found:
            raise NoSuchRow(f"audit log: {self._why_none(decision)}")
        return ShownRecords(found, int(str(found[-1]["seq"])))

    def _why_none(self, word: str) -> str:
        if is_random_id(word):
            return "no record names this decision or session"
        if not is_beginning(word):
            return (
                "the id of a decision or session has 32 hex digits: give all of them, or at least "
                f"the first {LEAST_DECISION}"
            )
        try:
            is_too_many = ids_beginning(self.tx, word) is None
        except Exception as failed:
            # Whatever a damaged store answers: then the whole log was looked through.
            _log.debug("ids are not counted", reason=type(failed).__name__)
            is_too_many = False
        if is_too_many:
            return (
                f"too many ids begin with {word}: give more digits, of a request in a session "
                f"{LEAST_REQUEST} or more, or the whole id"
            )
        return f"no record names a decision or session whose id begins with {word}"

    def _shown(self, each: ChainRow | Shown) -> Shown:
        return self.one(each) if isinstance(each, ChainRow) else each

    def one(self, row: ChainRow) -> Shown:
        """The record of a row, marked where it is not the one that was hashed."""
        personal, unreadable = self._personal(row.seq)
        try:
            found = show.document(row, personal, self._name)
        except Exception as failed:
            # Whatever a damaged store answers when it is asked for names.
            return show.damaged(row.seq, f"no record: {type(failed).__name__}")
        if unreadable:
            found["damaged"] = f"its personal values: {unreadable}"
        if row.hash != chain_hash(row.seq, row.prev_hash, row.canonical):
            found["damaged"] = "the record differs from the one that was hashed"
        return found

    def _personal(self, seq: int) -> tuple[Sequence[PersonalValue], str]:
        """The personal values of a record, and what keeps them from being read."""
        try:
            return self.tx.audit.personal(seq, seq).get(seq, ()), ""
        except Exception as failed:
            return (), f"unreadable: {why_unreadable(failed)}"

    def _end(self) -> int:
        return self.tx.audit.head().seq

    def _backwards(self, end: int) -> Iterator[ChainRow | Shown]:
        while end > 0:
            first = max(1, end - BATCH + 1)
            yield from reversed(self._stretch(first, end))
            end = first - 1

    def _stretch(self, first: int, last: int) -> list[ChainRow | Shown]:
        """What stands from *first* to *last*; of what is missing there is one entry a hole."""
        try:
            rows = self.tx.audit.rows(first, last - first + 1)
        except Exception as failed:
            # Whatever a damaged store answers.  Halves: the one bad record is found quickly.
            if first == last:
                return [show.damaged(first, f"unreadable: {why_unreadable(failed)}")]
            middle = (first + last) // 2
            return [*self._stretch(first, middle), *self._stretch(middle + 1, last)]
        found: list[ChainRow | Shown] = []
        due = first
        for row in rows:
            if row.seq > last:
                break
            if row.seq > due:
                found.append(show.damaged(due, "missing", row.seq - 1))
            found.append(row)
            due = row.seq + 1
        if due <= last:
            found.append(show.damaged(due, "missing", last))
        return found

    def _opened_by(self, decision_id: str) -> str:
        """Who asked for what this decision is about; empty where no record tells."""
        if decision_id not in self._askers:
            self._askers[decision_id] = _asker(self.tx, decision_id) if decision_id else ""
        return self._askers[decision_id]

    def _name(self, kind: str, id: str) -> str | None:
        """What somebody or something is called today."""
        key = (kind, id)
        if key not in self._names:
            self._names[key] = _name_of(self.tx, kind, id)
        return self._names[key]


def session_of(tx: ITransaction, uid: str) -> RequestSession | None:
    """Whose the session of a request is, and of what, as the record of its opening says."""
    try:
        return opened_session(tx, uid)
    except Exception as failed:
        # Whatever a damaged store answers.
        _log.debug("a session cannot be read", reason=type(failed).__name__)
        return None


def persons_called(tx: ITransaction, word: str) -> frozenset[str]:
    """The ids of the people and agents that *word* names: by name, or it is an id itself."""
    people = {one.id for one in tx.people.all() if one.name == word}
    return frozenset({word, *people, *(one.id for one in tx.agents.all() if one.name == word)})


def _last(mark: Shown) -> int:
    """The last record that a mark stands for."""
    return int(str(mark.get("last_seq", mark["seq"])))


def _record(row: ChainRow) -> Shown | None:
    """The record as it was committed, or None where there is none."""
    try:
        found = decode(row.canonical)
    except Malformed:
        return None
    return found if isinstance(found, Mapping) else None


def _asker(tx: ITransaction, decision_id: str) -> str:
    try:
        records = [_record(row) for row in tx.audit.by_decision(decision_id)]
    except Exception as failed:
        # Whatever a damaged store answers, as in a stretch of rows.
        _log.debug("a decision's records cannot be read", reason=type(failed).__name__)
        return ""
    actors = [record.get("actor") for record in records if record is not None]
    people = [
        one for one in actors if isinstance(one, Mapping) and one.get("kind") in ("person", "agent")
    ]
    return str(people[0].get("id")) if people else ""


def _name_of(tx: ITransaction, kind: str, id: str) -> str | None:
    if kind == "person":
        person = tx.people.get(id)
        return None if person is None else person.known_name or None
    if kind == "agent":
        agent = tx.agents.get(id)
        return None if agent is None else agent.name
    if kind == "node":
        node = tx.nodes.get(id)
        return None if node is None else node.name
    if kind == "token":
        kept = tx.tokens.get(id)
        bound_to = "" if kept is None else kept.token.bound_to or ""
        role = None if kept is None else kept.token.role
        is_of_caller = role in (TokenRole.PERSON, TokenRole.AGENT)
        return _name_of(tx, caller_kind(bound_to), bound_to) if is_of_caller else bound_to or None
    if kind == "key":
        expected = tx.expected.get(id)
        return None if expected is None else expected.name
    return _local_user(id) if kind == "operator" else None


def _local_user(id: str) -> str | None:
    word, _, number = id.partition(":")
    try:
        return pwd.getpwuid(int(number)).pw_name if word == "local" else None
    except (KeyError, ValueError, OverflowError):
        return None
