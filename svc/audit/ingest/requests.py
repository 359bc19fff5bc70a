"""Checks a batch of requests that a Proxy recorded: each entry, against Authority's own sessions.

Person, resource and kind of a request are those of the session that Authority granted to this
very Proxy, so a batch says none of them (rules R25, R29).  The first bad entry is named.  Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from attrs import field, frozen

from svc.audit.ingest.entries import JudgedEntry, KnownEntries
from svc.audit.ingest.facts import FactForm, check_context
from svc.audit.ingest.sampled import Pick, SampledAllow, SessionRow, sampled_allow
from svc.audit.ingest.values import check_values
from svc.audit.log.entries import DECISIONS, MAX_POLICIES
from svc.audit.log.forms import check_time, exact_text, is_second, text
from svc.audit.log.record import MAX_TEXT, is_storable
from svc.errors import Malformed
from svc.model.audit.batch import (
    ENTRIES,
    LARGEST,
    SESSIONS,
    VALUES,
    BatchClaims,
    RequestHeader,
    RequestValue,
    digest_of,
    read_headers,
    texts_beside,
)
from svc.model.audit.decision_ids import greatest_id, least_id, origin_digits
from svc.model.audit.hidden import hidden_at
from svc.model.audit.plain_json import read_item, read_plain, write_plain
from svc.model.audit.spool import SpoolRow
from svc.model.canonical import MAX_DEPTH, is_shallow
from svc.model.ids import is_random_id
from svc.model.policy.access import MAX_LEVELS, fact_from_form
from svc.model.policy.requested import APPROVED_REQUEST
from svc.model.session.ranges import MAX_RANGE, entry_of
from svc.model.session.recorded import RangedRecords
from svc.model.session.session import Session

_NO_FRAMES = bytes(32)
_MOST_LEVELS = MAX_DEPTH - 4
"""Of an entry; the record that it is shown as has a few more."""

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


@frozen
class CheckedBatch:
    """What a good batch says, as far as it is acted upon.

    Attributes:
        ids: Of its decisions, ascending.
        ranged: Of its sessions, to be held against their checkpoints (rule R25).
        sampled: Allowed requests that are to be decided again, in order.
    """

    ids: tuple[str, ...]
    ranged: tuple[RangedRecords, ...] = field(repr=False)
    sampled: tuple[SampledAllow, ...] = field(repr=False)


@frozen(kw_only=True)
class BatchChecks:
    """What batches are held against.

    Attributes:
        kinds: Those that are gated, by name.
        facts: The forms of the facts of the vocabulary.
        session_row: A session as Authority granted it.
        pick: Chooses the allowed requests that are given back to be decided again.
        forms: Of the entries that were judged before, of these kinds and facts.
    """

    kinds: Mapping[str, GatedKind]
    facts: Mapping[str, FactForm]
    session_row: SessionRow
    pick: Pick
    forms: KnownEntries

    def check(self, row: SpoolRow, record: Mapping[str, Any]) -> CheckedBatch:
        """The batch of *record*, once everything in it is good.

        Raises:
            Malformed: naming the first thing that is not.
        """
        claims, texts = BatchClaims.of(record), texts_beside(row.personal)
        headers = read_headers(texts[SESSIONS], claims)
        origin = claims.place.origin
        of_header = [self._kind_of(one, origin) for one in headers]
        entries, written = self._entries(texts[ENTRIES], of_header, claims)
        claims.check_entries([one.encode() for one in written])
        claims.check_numbers([one[:2] for one in entries])
        check_values(texts[VALUES], entries)
        ids = sorted({one.decision_id for one in entries})
        if len(ids) != len(entries):
            raise Malformed("request batch: a decision id is in it twice")
        filed = record.get("decision_id"), record["batch"]["last_id"]
        if filed != (least_id(ids[0]), greatest_id(ids[-1])):
            raise Malformed("request batch: it is not filed under the ids of its decisions")
        return CheckedBatch(
            ids=tuple(ids),
            ranged=_ranged(headers, claims, entries),
            sampled=self._sampled(headers, entries, written, texts[VALUES]),
        )

    def _kind_of(self, header: RequestHeader, origin: str) -> GatedKind:
        session = self.session_row(header.session_uid)
        if session is None or session.proxy_id != origin:
            raise Malformed("request batch: it is of a session that this Proxy was not granted")
        kind = self.kinds.get(session.kind)
        if kind is None:
            raise Malformed("request batch: the kind of a session has no gate, or is not enabled")
        if kind.resource_type != header.resource_type:
            raise Malformed("request batch: a session's resource is of another type")
        return kind

    def _entries(
        self, text: str, of_header: Sequence[GatedKind], claims: BatchClaims
    ) -> tuple[list[JudgedEntry], list[str]]:
        """The entries in *text*, each good by itself, and how each is written."""
        digits, at = origin_digits(claims.place.origin), 1
        entries: list[JudgedEntry] = []
        written: list[str] = []
        while text[:1] == "[":
            run, texts, end = self.forms.read(text, at, claims.count - len(entries), of_header)
            try:
                for entry in run:
                    _check_cut_out(entry, digits)
                    entries.append(entry)
                if not run:
                    entry, end = self._entry(text, at, of_header, digits)
                    entries.append(entry)
                    texts = [text[at:end]]
            except Malformed as refused:
                what = refused.text.removeprefix("audit row: ")
                raise Malformed(f"request batch: entry {len(entries)}: {what}") from None
            written += texts
            at = end
            if len(entries) == claims.count or text[at : at + 1] != ",":
                break  # a comma behind the last is not passed over: the list would be none
            at += 1
        if text[at:] != "]":
            raise Malformed("request batch: its entries are not a list of as many in its one form")
        return entries, written

    def _entry(
        self, text: str, at: int, of_header: Sequence[GatedKind], digits: str
    ) -> tuple[JudgedEntry, int]:
        """The entry that begins at *at*, of no known form, and where it ends."""
        whole, end = read_item(text, at)
        written = text[at:end]
        if not is_shallow(whole, _MOST_LEVELS):
            raise Malformed("it has too many levels")
        if write_plain(whole) != written:
            raise Malformed("it is not in its one form")
        session = whole.get("session") if type(whole) is dict else None
        if type(session) is not int or not 0 <= session < len(of_header):
            raise Malformed("it is of no session of the batch")
        _check_entry(whole, of_header[session], digits, _is_short(written))
        context = whole.get("context")
        paths = check_context("request.context", context, self.facts) if context else []
        self.forms.judged(written, whole, of_header[session], paths)
        return _read(whole, paths), end

    def _sampled(
        self,
        headers: Sequence[RequestHeader],
        entries: Sequence[JudgedEntry],
        written: Sequence[str],
        values: str,
    ) -> tuple[SampledAllow, ...]:
        """Some of the allowed requests, and all that say that they stood on an approval.

        The uses of an approval are counted.

        Args:
            values: The text of the personal values, which were checked.
        """
        found: list[SampledAllow] = []
        of_entry: dict[int, list[Any]] | None = None
        pick = self.pick
        for index, entry in enumerate(entries):
            if not entry.is_allowed:
                continue
            is_picked = pick()
            if not is_picked and not entry.is_approved:
                continue
            header = headers[entry.session]
            session = self.session_row(header.session_uid)
            assert session is not None  # or the batch had not been good
            if of_entry is None:
                of_entry = {}
                for one in read_plain(values):
                    of_entry.setdefault(one[0], []).append(one)
            told = {one.path: one.value for one in map(RequestValue.of, of_entry.get(index, ()))}
            form = read_plain(written[index])
            found.append(sampled_allow(form, header, session, told, is_picked=is_picked))
        return tuple(found)


def _read(entry: Mapping[str, Any], paths: Sequence[str]) -> JudgedEntry:
    """What a good entry says."""
    first, end = entry.get("range", (0, 0))
    ordered = tuple(sorted(paths))
    return JudgedEntry(
        session=entry["session"],
        session_n=entry["session_n"],
        decision_id=entry["decision_id"],
        is_allowed=entry["decision"] == "allow",
        is_approved=APPROVED_REQUEST in entry.get("context", ()),
        first=first,
        end=end,
        frames=entry.get("frames", ""),
        second=entry["time"],
        paths=ordered,
        hidden=tuple(hidden_at(entry, path) for path in ordered),
    )


def _ranged(
    headers: Sequence[RequestHeader], claims: BatchClaims, entries: Sequence[JudgedEntry]
) -> tuple[RangedRecords, ...]:
    """What the entries of each header, whose numbers were checked, say of their session.

    A request that does not say which bytes it is about matches no checkpoint.
    """
    found: dict[int, list[bytes]] = {}
    for one in entries:
        tags = bytes.fromhex(one.frames) if one.frames else _NO_FRAMES
        first = one.first
        entry = entry_of(one.session_n, first, one.end - first, tags, one.is_allowed)
        known = found.get(one.session)
        if known is None:
            found[one.session] = [entry]
        else:
            known.append(entry)
    return tuple(
        [
            RangedRecords(headers[at].session_uid, claims.spans[at][0], run)
            for at, run in found.items()
        ]
    )


def _check_cut_out(entry: JudgedEntry, digits: str) -> None:
    """Check what the form of an entry does not say."""
    _, _, decision_id, _, _, first, end, _, second, _, _ = entry
    if not decision_id.startswith(digits):
        raise Malformed("its decision id is not one of its Proxy's")
    if not is_second(second):
        raise Malformed("the time is malformed")
    if end > LARGEST or not 0 <= end - first <= MAX_RANGE:  # neither is below 0 in a form
        raise Malformed("its range is malformed")


@lru_cache(maxsize=64)
def _are_members(names: tuple[str, ...]) -> bool:
    """Whether an entry has what it needs, and nothing that nobody knows."""
    return _NEEDED <= set(names) <= _KNOWN


def _is_short(written: str) -> bool:
    """Whether no text in an entry can be too long, or hold NUL."""
    return len(written) <= MAX_TEXT and "\\u0000" not in written


def _check_entry(entry: Mapping[str, Any], kind: GatedKind, digits: str, is_short: bool) -> None:
    if not _are_members(tuple(entry)):
        raise Malformed("its members are not those of a request")
    _check_said(entry, kind)
    decision_id = exact_text(entry["decision_id"])
    if not is_random_id(decision_id) or not decision_id.startswith(digits):
        raise Malformed("its decision id is not one of its Proxy's")
    check_time(exact_text(entry["time"]))
    _check_transport(entry)
    if "context" not in entry:
        if entry["decision"] == "allow":
            raise Malformed("an allowed request is there without its facts")
        return
    context = entry["context"]
    if type(context) is not dict or not (is_short or is_storable(context)):
        raise Malformed("its facts are malformed, too long or contain NUL")
    if entry["decision"] == "allow":
        # Whether it is good does not depend on whether it is picked to be decided again.
        for fact in context.values():
            fact_from_form(fact, MAX_LEVELS)


def _check_said(entry: Mapping[str, Any], kind: GatedKind) -> None:
    if kind.actions.get(exact_text(entry["cedar_action"])) != entry["action"]:
        raise Malformed("it names no action of its session's kind, or counts it as another")
    if exact_text(entry["decision"]) not in DECISIONS:
        raise Malformed("it has no decision")
    policies = entry.get("policies", [])
    if type(policies) is not list or len(policies) > MAX_POLICIES:
        raise Malformed("its policies are malformed")
    for one in (*policies, entry.get("reason", "")):
        text(exact_text(one))


def _check_transport(entry: Mapping[str, Any]) -> None:
    if "frames" in entry:
        digest_of(entry["frames"])
    if "range" not in entry:
        return
    found = entry["range"]
    if type(found) is not list or len(found) != 2 or any(type(one) is not int for one in found):
        raise Malformed("its range is malformed")
    _check_range(*found)


def _check_range(first: int, end: int) -> None:
    if not 0 <= first <= end <= LARGEST or end - first > MAX_RANGE:
        raise Malformed("its range is malformed")
