"""Remembers how good entries of batches are written, so that each like them is judged in one step.

The requests of a session differ in ids, numbers, digests and times, and hardly in anything else.  A
form is the text of an entry that was judged, with these cut out: an entry of the same form says the
same of all that was judged, and is written as canonical too, because a number stands for a number
and hex digits for as many.  Whoever asks judges what was cut out.  Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from attrs import define, field, frozen

from svc.model.audit.plain_json import write_plain
from svc.model.policy.requested import APPROVED_REQUEST

MOST_FORMS = 32
"""Forms that are remembered; one that is used moves to the front."""

_MOST_SEEN = 256
"""Forms of which one entry was seen: to make what finds the next costs as much as to judge many."""

_PRICE = 20
"""Entries that are judged by themselves before one more form is made: whoever writes each two alike
and no third makes the leader work twice as much, not a hundred times."""

_MOST_NUMBERS = 32
"""Among the facts; each makes the pattern dearer, by as much as a hundred characters of text."""

_LONGEST = 2048
"""Characters of an entry that is remembered."""

_NUMBER = "(?:0|[1-9][0-9]{0,14})"
_IS_NUMBER, _HIDDEN = "", '"personal"'
# Numbers among the facts, and what stands for a personal one.  A number stands behind the quote
# that ends a name: no other quote has a letter before it, in names and texts they are escaped.
_OF_FACTS = re.compile(rf'("personal":"[0-9a-f]{{64}}"|(?<=[A-Za-z0-9_]"):{_NUMBER}(?=[,}}]))')
_OF_REST = re.compile(
    rf'("decision_id":"[0-9a-f]{{32}}"|"frames":"[0-9a-f]{{64}}"|"range":\[{_NUMBER},{_NUMBER}\]'
    rf'|"session":{_NUMBER},"session_n":{_NUMBER},"time":"[0-9TZ:.-]{{27}}")'
)
_TIME = "([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})[.][0-9]{6}Z"
_CUT_OUT = {
    _IS_NUMBER: f":{_NUMBER}",
    _HIDDEN: '"personal":"([0-9a-f]{64})"',
    '"decision_id"': '"decision_id":"([0-9a-f]{32})"',
    '"frames"': '"frames":"([0-9a-f]{64})"',
    '"range"': rf'"range":\[({_NUMBER}),({_NUMBER})\]',
    '"session"': rf'"session":({_NUMBER}),"session_n":({_NUMBER}),"time":"{_TIME}"',
}


class JudgedEntry(NamedTuple):
    """What an entry says beside what its form says.

    Attributes:
        frames: Of its bytes, in hex; empty where it says nothing of them.
        second: Of its time, without a zone.
        hidden: The hashes of its personal values, in order of their paths.
        is_approved: Whether it says that it stood on an approval.
        first: Of its bytes, and *end* behind them; both 0 where it says nothing of them.
    """

    session: int
    session_n: int
    decision_id: str
    is_allowed: bool
    is_approved: bool
    first: int
    end: int
    frames: str
    second: str
    paths: tuple[str, ...]
    hidden: tuple[str, ...]


_new = tuple.__new__
"""By names it would take five times as long, for each entry."""


@frozen
class EntryPattern:
    """How entries are written that differ in nothing that was judged.

    Attributes:
        kind: Whose actions it was held against.
        paths: Of personal values, in order.
        order: The place of the hash of each in the text.
    """

    kind: object
    pattern: re.Pattern[str]
    paths: tuple[str, ...]
    order: tuple[int, ...]
    is_allowed: bool
    is_approved: bool
    has_frames: bool
    has_range: bool

    def read(
        self, text: str, at: int, most: int, kinds: Sequence[object]
    ) -> tuple[list[JudgedEntry], list[str], int]:
        """The entries of this form from *at* on, as :meth:`KnownEntries.read` gives them."""
        match, paths, order, kind = self.pattern.match, self.paths, self.order, self.kind
        is_allowed, is_approved, has_range = self.is_allowed, self.is_approved, self.has_range
        hidden, is_one = len(paths), len(paths) < 2
        frames_at = hidden + 1 if self.has_frames else 0
        entries: list[JudgedEntry] = []
        written: list[str] = []
        after = at
        while (found := match(text, at)) is not None:
            end, said = found.end(), found.groups()
            session = int(said[-3])
            if end - at > _LONGEST:  # numbers may be longer
                break
            if session >= len(kinds) or kinds[session] is not kind:
                break
            hashes = said[:hidden]
            values = (
                session,
                int(said[-2]),
                said[hidden],
                is_allowed,
                is_approved,
                int(said[-5]) if has_range else 0,
                int(said[-4]) if has_range else 0,
                said[frames_at] if frames_at else "",
                said[-1],
                paths,
                hashes if is_one else tuple([hashes[place] for place in order]),
            )
            entries.append(_new(JudgedEntry, values))
            written.append(text[at:end])
            after = end
            if len(entries) == most or text[end : end + 1] != ",":
                break
            at = end + 1
        return entries, written, after


@define
class KnownEntries:
    """Those of the entries that were judged lately; threads may share it."""

    _known: tuple[EntryPattern, ...] = field(default=(), init=False)
    _seen: dict[tuple[int, str], None] = field(factory=dict, init=False)
    _credit: int = field(default=_PRICE * MOST_FORMS, init=False)

    def read(
        self, text: str, at: int, most: int, kinds: Sequence[object]
    ) -> tuple[list[JudgedEntry], list[str], int]:
        """The entries from *at* on that are of one known form, up to the first that is not.

        Args:
            text: A list of entries, or what may be one.
            at: Where an entry would begin.
            most: How many there may be.
            kinds: Of the sessions of the batch.

        Returns:
            The entries, how each is written, and where what follows them begins.
        """
        known = self._known
        for place, form in enumerate(known):
            found = form.read(text, at, most, kinds)
            if found[0]:
                if place:
                    # Another thread may do the same: then one of both is forgotten.
                    self._known = (form, *known[:place], *known[place + 1 :])
                return found
        return [], [], at

    def judged(
        self, text: str, entry: Mapping[str, Any], kind: object, paths: Sequence[str]
    ) -> None:
        """Remember a good entry.

        Args:
            paths: Of its personal values, in the order of the text.
        """
        self._credit = min(self._credit + 1, _PRICE * MOST_FORMS)
        parts = _parts(text, entry, len(paths)) if len(text) <= _LONGEST else None
        if parts is None:
            return
        seen = id(kind), "\0".join(parts)
        if seen not in self._seen:
            if len(self._seen) >= _MOST_SEEN:
                self._seen.clear()
            self._seen[seen] = None
            return
        if self._credit < _PRICE:
            return
        self._credit -= _PRICE
        ordered = tuple(sorted(paths))
        form = EntryPattern(
            kind=kind,
            pattern=_compiled(_pattern(parts)),
            paths=ordered,
            order=tuple(map(paths.index, ordered)),
            is_allowed=entry["decision"] == "allow",
            is_approved=APPROVED_REQUEST in entry.get("context", ()),
            has_frames="frames" in entry,
            has_range="range" in entry,
        )
        self._known = (form, *self._known[: MOST_FORMS - 1])


_compiled = lru_cache(maxsize=MOST_FORMS)(re.compile)


def _parts(text: str, entry: Mapping[str, Any], hidden: int) -> list[str] | None:
    """The parts of an entry's text, of which each second is the name of what was cut out.

    None where the entries of its form cannot be told by their text, or are dear to tell.
    """
    facts_end = 0
    if "context" in entry:
        # Before the facts stand the two actions, and no name beside them is less than "context".
        before = {name: entry[name] for name in ("action", "cedar_action", "context")}
        facts_end = len(write_plain(before)) - 1
    facts, rest = _cut(_OF_FACTS, text[:facts_end]), _cut(_OF_REST, text[facts_end:])
    due = ["decision_id", *(name for name in ("frames", "range") if name in entry), "session"]
    if rest[1::2] != [f'"{name}"' for name in due]:
        return None
    names = facts[1::2]
    if names.count(_HIDDEN) != hidden or names.count(_IS_NUMBER) > _MOST_NUMBERS:
        return None
    return [*facts[:-1], facts[-1] + rest[0], *rest[1:]]


def _cut(pattern: re.Pattern[str], text: str) -> list[str]:
    parts = pattern.split(text)
    parts[1::2] = [found.partition(":")[0] for found in parts[1::2]]
    return parts


def _pattern(parts: Sequence[str]) -> str:
    """What finds the entries with these parts."""
    return "".join(_CUT_OUT[part] if at % 2 else re.escape(part) for at, part in enumerate(parts))
