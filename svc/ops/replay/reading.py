"""Reads recorded requests, and writes them as lines for the process that decides them again."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from attrs import define, field

from svc.audit.log.entries import RequestSession
from svc.audit.log.find import opening_record
from svc.audit.log.requests import RecordedRequest, recorded_requests
from svc.audit.log.verify import ChainFault, follow
from svc.interfaces.store import ITransaction
from svc.model.audit.ledger import ChainRow
from svc.model.audit.record import GENESIS, rfc3339
from svc.ops.replay.span import ReplaySpan
from svc.ops.show import session_of
from svc.ops.store import StorePlace
from svc.ops.verify.rows import batches, personal_of
from svc.policy.replay.lines import SliceWindow, request_line, slice_line

MOST_NAMES = 200_000
"""So many people and resources are told apart."""

ROWS = 16
"""So many are taken apart at once: each may be a batch of 256 requests."""

MOST_NAMED = 500
"""So many slices are asked for at once."""

_REMEMBERED = 8192


@define
class ReplayCoverage:
    """What the log had to be decided, and on whose word."""

    requests: int = 0
    told_by: Counter[str] = field(factory=Counter)
    entities: Counter[str] = field(factory=Counter)
    versions: Counter[int] = field(factory=Counter)
    actions: Counter[str] = field(factory=Counter)
    resources: dict[str, None] = field(factory=dict)
    people: dict[str, None] = field(factory=dict)

    def count(self, request: RecordedRequest) -> None:
        """One more."""
        form = request.form
        self.requests += 1
        self.told_by[request.told_by] += 1
        self.versions[request.policy_version] += 1
        self.actions[str(form["action"])] += 1
        for names, side in ((self.resources, "resource"), (self.people, "principal")):
            if len(names) < MOST_NAMES:
                names[str(form[side]["id"])] = None

    def add(self, other: ReplayCoverage) -> None:
        """What came after it."""
        self.requests += other.requests
        for counts, more in (
            (self.told_by, other.told_by),
            (self.entities, other.entities),
            (self.actions, other.actions),
        ):
            counts.update(more)
        self.versions.update(other.versions)
        for names, later in ((self.resources, other.resources), (self.people, other.people)):
            for name in later:
                if len(names) < MOST_NAMES:
                    names[name] = None


@define
class RecordedRequestReader:
    """Turns records into the child's lines, and counts what they cover."""

    place: StorePlace
    span: ReplaySpan
    first_prev: bytes | None = None
    """What the first row names as the hash before it; None before there was one."""
    last_hash: bytes = GENESIS
    coverage: ReplayCoverage = field(factory=ReplayCoverage)
    _sent: SliceWindow = field(factory=SliceWindow, init=False)
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
                    send(self._batch(tx, batch[start : start + ROWS]))

        self.place.look("policy replay", look)

    def _follow(self, batch: Sequence[ChainRow]) -> None:
        for row in batch:
            if self.first_prev is None:
                self.first_prev = self.last_hash = row.prev_hash
            self.last_hash = follow(row, row.seq, self.last_hash)

    def _batch(self, tx: ITransaction, batch: Sequence[ChainRow]) -> bytes:
        wanted = [request for request in self._recorded(tx, batch) if self._is_in(request)]
        texts = self._texts(tx, {one.entities_digest for one in wanted})
        lines: list[bytes] = []
        for request in wanted:
            if request.index is None:
                _check_form(request)
            self.coverage.count(request)
            digest = self._slice(tx, request, texts)
            text = texts.get(digest)
            if text is not None and self._sent.get(digest) is None:
                self._sent.add(digest, text)
                lines.append(slice_line(digest, text))
            decided = (request.decision, request.policies, request.policy_version)
            lines.append(request_line(request.seq, digest, request.form, request.erased, decided))
        return b"".join(lines)

    def _recorded(self, tx: ITransaction, batch: Sequence[ChainRow]) -> Iterator[RecordedRequest]:
        return recorded_requests([batch], personal_of(tx.audit), partial(self._session, tx))

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
        sent = {each: self._sent.get(each) for each in digests}
        texts = {each: text for each, text in sent.items() if text is not None}
        wanted = sorted(digests - texts.keys())
        for start in range(0, len(wanted), MOST_NAMED):
            some = wanted[start : start + MOST_NAMED]
            texts |= {one.digest: one.text for one in tx.audit.slices("", len(some), some)}
        return texts

    def _is_in(self, request: RecordedRequest) -> bool:
        return request.time >= self._since and (not self._until or request.time < self._until)

    def _slice(self, tx: ITransaction, request: RecordedRequest, texts: dict[str, str]) -> str:
        """Which slice it is decided over: its own, or that of its session's opening.

        A Proxy keeps no slices.  Its decisions mostly look at what the opening looked at, and
        then name the same one.  Which one is that of the opening is asked of its record alone, and
        not of what was read before: the answer is then the same wherever reading begins.
        """
        own = request.entities_digest
        if own in texts:
            self.coverage.entities["recorded"] += 1
            return own
        opening = self._opening(tx, request.session_uid)
        if opening and opening not in texts:
            texts.update(self._texts(tx, {opening}))
        if opening in texts:
            self.coverage.entities["of_opening"] += 1
            return opening
        self.coverage.entities["missing"] += 1
        return own

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
