"""Reads recorded requests, and writes them as lines for the process that decides them again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from attrs import define, field, frozen

from svc.audit.log.entries import RequestSession
from svc.audit.log.find import opening_record
from svc.audit.log.requests import (
    BY_PROXY,
    RecordedRequest,
    RequestRow,
    entry_request,
    request_rows,
    session_sides,
)
from svc.audit.log.verify import ChainFault, follow
from svc.interfaces.store import ITransaction
from svc.model.audit.ledger import ChainRow
from svc.model.audit.record import GENESIS, rfc3339
from svc.ops.replay.coverage import Covered, ReplayCoverage
from svc.ops.replay.keyed import EntryKeys, KeyedBatch
from svc.ops.replay.questions import QuestionKey, QuestionWriter
from svc.ops.replay.span import ReplaySpan
from svc.ops.show import session_of
from svc.ops.store import StorePlace
from svc.ops.verify.rows import batches, personal_of
from svc.policy.replay.lines import ReplayQuestion, sides_text

ROWS = 16
"""So many are taken apart at once: each may be a batch of 256 requests."""

MOST_NAMED = 500
"""So many slices are asked for at once."""

_REMEMBERED = 8192


@frozen(hash=False)
class _AskingSession:
    """What the entries of one session in a batch have in common.

    Attributes:
        key: Says all of it.
        sides: Person and resource, as a request names them.
        text: They as JSON.
        digest: The slice that they are decided over.
        entities: Which one that is.
    """

    key: str
    sides: Mapping[str, Any]
    text: str
    digest: str
    entities: str


@define
class RecordedRequestReader:
    """Turns records into the child's lines, and counts what they cover."""

    place: StorePlace
    span: ReplaySpan
    first_prev: bytes | None = None
    """What the first row names as the hash before it; None before there was one."""
    last_hash: bytes = GENESIS
    _known: EntryKeys = field(factory=EntryKeys, init=False)
    _writer: QuestionWriter = field(factory=QuestionWriter, init=False)
    _openings: OrderedDict[str, str] = field(factory=OrderedDict, init=False)
    _sessions: dict[str, RequestSession] = field(factory=dict, init=False)
    _since: str = field(init=False)
    _until: str = field(init=False)

    def __attrs_post_init__(self) -> None:
        until = self.span.until
        self._since, self._until = rfc3339(self.span.since), "" if until is None else rfc3339(until)

    def give(self, first: int, last: int, send: Callable[[bytes], None]) -> None:
        """Send the lines of the records *first* to *last*."""

        def look(tx: ITransaction) -> None:
            for batch in batches(tx.audit, first, last - first + 1):
                self._follow(batch)
                for start in range(0, len(batch), ROWS):
                    send(self._lines(tx, batch[start : start + ROWS]))

        self.place.look("policy replay", look)

    def covered(self) -> ReplayCoverage:
        """What was given covers, since this was last asked."""
        return self._writer.covered()

    def _follow(self, batch: Sequence[ChainRow]) -> None:
        for row in batch:
            if self.first_prev is None:
                self.first_prev = self.last_hash = row.prev_hash
            self.last_hash = follow(row, row.seq, self.last_hash)

    def _lines(self, tx: ITransaction, rows: Sequence[ChainRow]) -> bytes:
        found: list[tuple[int, KeyedBatch | list[RecordedRequest]]] = []
        digests: set[str] = set()
        for row in request_rows(rows, personal_of(tx.audit)):
            batch = self._known.read(row.record, row.beside) if row.is_batch else None
            if batch is not None:
                digests.update(header.entities_digest for header in batch.headers)
                found.append((row.row.seq, batch))
                continue
            wanted = list(self._wanted(tx, row))
            digests.update(request.entities_digest for request in wanted)
            found.append((row.row.seq, wanted))
        texts = self._texts(tx, digests)
        for seq, each in found:
            self._writer.begin(seq)
            if isinstance(each, KeyedBatch):
                self._batch(tx, seq, each, texts)
            else:
                for request in each:
                    self._request(tx, request, texts)
        return self._writer.taken()

    def _wanted(self, tx: ITransaction, row: RequestRow) -> Iterator[RecordedRequest]:
        for request in row.requests(partial(self._session, tx)):
            if self._is_in(request.time):
                if request.index is None:
                    _check_form(request)
                yield request

    def _batch(self, tx: ITransaction, seq: int, batch: KeyedBatch, texts: dict[str, str]) -> None:
        """Give the entries of a batch, most of which ask what is known."""
        writer = self._writer
        sides = self._sides(tx, seq, batch, texts)
        keys: list[QuestionKey] = [
            (sides[at].key, key) for at, key in zip(batch.sessions, batch.keys, strict=True)
        ]
        is_in = self._is_in(min(batch.times)) and self._is_in(max(batch.times))
        known = [number for number in writer.known(keys) if number is not None]
        is_there = all(
            writer.slice_text(side.digest) is not None or side.digest not in texts
            for side in sides.values()
        )
        if is_in and is_there and len(known) == len(keys):
            writer.request(known, batch.nows)
            return
        for index, key in enumerate(keys):
            if is_in or self._is_in(batch.times[index]):
                side = sides[batch.sessions[index]]
                writer.give_slice(side.digest, texts.get(side.digest))
                [number] = writer.known((key,))
                if number is None:
                    number = self._ask(seq, batch, index, side)
                writer.request((number,), (batch.nows[index],))

    def _sides(
        self, tx: ITransaction, seq: int, batch: KeyedBatch, texts: dict[str, str]
    ) -> dict[int, _AskingSession]:
        """What each session of a batch has, by its place."""
        found = dict[int, _AskingSession]()
        for at in dict.fromkeys(batch.sessions):
            header = batch.headers[at]
            index = batch.sessions.index(at)
            sides = session_sides(seq, index, header, partial(self._session, tx))
            digest, which = self._slice(tx, header.entities_digest, header.session_uid, texts)
            text = sides_text(sides)
            key = f"{text}{digest} {which} {header.policy_version}"
            found[at] = _AskingSession(
                key=key, sides=sides, text=text, digest=digest, entities=which
            )
        return found

    def _ask(self, seq: int, batch: KeyedBatch, index: int, side: _AskingSession) -> str:
        """Have the question of an entry asked; its number."""
        entry = batch.entry(index)
        sides, header, now = side.sides, batch.headers[batch.sessions[index]], batch.nows[index]
        covered = Covered(
            told_by=BY_PROXY,
            entities=side.entities,
            version=header.policy_version,
            action=entry["cedar_action"],
            person=sides["principal"]["id"],
            resource=sides["resource"]["id"],
        )
        text = batch.whole(index, "0")
        if text is not None:
            asked = (side.digest, side.text, header.policy_version)
            question = ReplayQuestion.of_entry(asked, text, now)
        else:
            request = entry_request(
                seq, index, entry, header, sides=sides, values=batch.told(index)
            )
            question = _question(request, side.digest)
        return self._writer.ask((side.key, batch.keys[index]), question, covered)

    def _request(self, tx: ITransaction, request: RecordedRequest, texts: dict[str, str]) -> None:
        """Give a request that was read by itself."""
        digest, which = self._slice(tx, request.entities_digest, request.session_uid, texts)
        question, covered = _question(request, digest), _covered(request, which)
        key = (repr(covered), question.text)
        self._writer.give_slice(digest, texts.get(digest))
        [number] = self._writer.known((key,))
        if number is None:
            number = self._writer.ask(key, question, covered)
        self._writer.request((number,), (question.now,))

    def _session(self, tx: ITransaction, uid: str) -> RequestSession | None:
        """Whose a session is, which never changes."""
        found = self._sessions.get(uid)
        if found is None and (found := session_of(tx, uid)) is not None:
            if len(self._sessions) >= _REMEMBERED:
                self._sessions.clear()
            self._sessions[uid] = found
        return found

    def _texts(self, tx: ITransaction, digests: set[str]) -> dict[str, str]:
        """The slices of a batch; those that were sent may be let go before it ends."""
        sent = {each: self._writer.slice_text(each) for each in digests}
        texts = {each: text for each, text in sent.items() if text is not None}
        wanted = sorted(digests - texts.keys())
        for start in range(0, len(wanted), MOST_NAMED):
            some = wanted[start : start + MOST_NAMED]
            texts |= {one.digest: one.text for one in tx.audit.slices("", len(some), some)}
        return texts

    def _is_in(self, time: str) -> bool:
        return time >= self._since and (not self._until or time < self._until)

    def _slice(
        self, tx: ITransaction, own: str, session_uid: str, texts: dict[str, str]
    ) -> tuple[str, str]:
        """Which slice a request is decided over, by its digest, and what that one is.

        Its own, or that of its session's opening.  A Proxy keeps no slices.  Its decisions mostly
        look at what the opening looked at, and then name the same one.  Which one is that of the
        opening is asked of its record alone, and not of what was read before: the answer is then
        the same wherever reading begins.
        """
        if own in texts:
            return own, "recorded"
        opening = self._opening(tx, session_uid)
        if opening and opening not in texts:
            texts.update(self._texts(tx, {opening}))
        return (opening, "of_opening") if opening in texts else (own, "missing")

    def _opening(self, tx: ITransaction, session_uid: str) -> str:
        """The slice that a session's opening was decided over; empty where nothing tells it."""
        found = self._openings.get(session_uid)
        if found is not None:
            return found
        record = opening_record(tx, session_uid) if session_uid else None
        found = str((record or {}).get("entities_digest", ""))
        self._openings[session_uid] = found
        if len(self._openings) > _REMEMBERED:
            self._openings.popitem(last=False)
        return found


def _check_form(request: RecordedRequest) -> None:
    form = request.form
    sides = (form.get("principal"), form.get("resource"))
    whole = all(isinstance(side, dict) and {"type", "id"} == set(side) for side in sides)
    if not whole or not {"action", "request_kind"} <= set(form):
        raise ChainFault(request.seq, "record", "its request is malformed")


def _question(request: RecordedRequest, digest: str) -> ReplayQuestion:
    decided = (request.decision, request.policies, request.policy_version)
    return ReplayQuestion.of(digest, request.form, request.erased, decided)


def _covered(request: RecordedRequest, entities: str) -> Covered:
    form = request.form
    return Covered(
        told_by=request.told_by,
        entities=entities,
        version=request.policy_version,
        action=str(form["action"]),
        person=str(form["principal"]["id"]),
        resource=str(form["resource"]["id"]),
    )
