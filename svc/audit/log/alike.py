"""Remembers the form of good records, so that others of that form are judged without parsing.

A form tells the event of a record, its members, and their types.  It is made of a record in
canonical form.  So a record that matches it is canonical too, and differs in nothing that is
judged, except the values that are read out by the pattern.  No form has a text with a quote, a
backslash or anything but printable ASCII, nor a number of more than 15 digits.  Pure.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from attrs import define, field

from svc.audit.log.record import PERSONAL
from svc.model.audit.batch import BATCH_EVENT
from svc.model.audit.events import DECIDED, ERASING
from svc.model.canonical import write_plain

OURS = ("form", "hash", "origin_signature", "personal", "prev_hash", "seq")
"""Members of an export's line that are not the record's, in order."""

_MOST_FORMS = 8
"""Of one event."""

_MOST_EVENTS = 256
_MOST_SEEN = 256
_MOST_CREDIT, _RESERVE = 6400, 400
"""Every record earns one unit of credit, which stands for the time it takes to judge a short record
by itself.  The credit pays for each form tried in vain, each look at a record for its form, and
each pattern compiled, by size.  So whatever a log contains, forms cost at most about as much as
judging the records does, after the initial credit is spent.  No look may use the reserve: else
records that have no form could use up what a pattern is to be paid with."""

_TRY_PER, _LOOK_PER, _MAKE_PER, _LEAST = 1024, 128, 4, 200
"""What one unit pays for: bytes of a record tried, or looked at; characters of a pattern compiled.
A pattern costs at least the last."""

_READ_WHOLE = ERASING | {BATCH_EVENT}
"""Events whose records are judged by more than a form tells."""

_LONGEST = 8192
_MOST_LEVELS = 8

_EVENT = b'"event":"'
_EVENT_LENGTH = len(_EVENT)
_TEXT = "[ !#-[\\]-~]*+"
_NUMBER = "(?:0|-?[1-9][0-9]{0,14}+)"
_IS_TEXT = re.compile(_TEXT)
_IS_NAME = re.compile("[A-Za-z0-9_]++")


class RecordForm(NamedTuple):
    """How records are written that differ only in plain texts, numbers and flags.

    Attributes:
        hidden: For the path of each personal value, which group of the pattern has its hash.
        digest: Which group has the digest of the entities that was decided over; 0 for none.
        is_placed: Whether they have a place in a spool.
        places: For each of OURS, which group stands where it does in the line of an export.
    """

    pattern: re.Pattern[bytes]
    hidden: Mapping[str, int]
    digest: int
    is_placed: bool
    places: tuple[int, ...]


Alike: TypeAlias = tuple[RecordForm, re.Match[bytes]]
"""The form of a record, and what the record says beside it."""


@define
class KnownRecords:
    """The forms of the records that were judged lately."""

    _forms: dict[bytes, list[RecordForm]] = field(factory=dict, init=False)
    _seen: set[str] = field(factory=set, init=False)
    _credit: int = field(default=_MOST_CREDIT, init=False)

    def read(self, canonical: bytes) -> Alike | None:
        """The form of a record's text, and what it says; None where it is of no known form."""
        self._credit = min(self._credit + 1, _MOST_CREDIT)
        if len(canonical) > _LONGEST:
            return None
        event, price = _event_in(canonical), 1 + len(canonical) // _TRY_PER
        for place, form in enumerate(self._forms.get(event, ())):
            if self._credit < price:
                return None
            found = form.pattern.fullmatch(canonical)
            if found is not None:
                if place:
                    self._first(event, form)
                return form, found
            self._credit -= price
        return None

    def reading(self, records: Iterable[bytes]) -> Iterator[Alike | None]:
        """As :meth:`read`, of one after the other; what is judged meanwhile finds the next."""
        for canonical in records:
            if self._credit == _MOST_CREDIT and len(canonical) <= _LONGEST:
                # As nearly always: nothing is to be earned, and the first form is the one.
                begin = canonical.find(_EVENT) + _EVENT_LENGTH
                forms = self._forms.get(canonical[begin : canonical.find(b'"', begin)])
                if forms:
                    found = forms[0].pattern.fullmatch(canonical)
                    if found is not None:
                        yield forms[0], found
                        continue
            yield self.read(canonical)

    def judged(self, canonical: bytes, record: Mapping[str, Any]) -> None:
        """Remember a good record of no known form; the second of its form finds the next."""
        price = 4 + len(canonical) // _LOOK_PER
        if len(canonical) > _LONGEST or self._credit < price + _RESERVE:
            return
        self._credit -= price
        pattern = _pattern(canonical, record)
        if pattern is None:
            return
        if pattern.text not in self._seen:
            if len(self._seen) >= _MOST_SEEN:
                self._seen.clear()
            self._seen.add(pattern.text)
            return
        price = max(_LEAST, len(pattern.text) // _MAKE_PER)
        if self._credit >= price:
            self._credit -= price
            self._first(_event_in(canonical), pattern.form())

    def _first(self, event: bytes, form: RecordForm) -> None:
        """Let a form be tried first."""
        if len(self._forms) >= _MOST_EVENTS and event not in self._forms:
            self._forms.clear()
        others = [each for each in self._forms.get(event, ()) if each is not form]
        self._forms[event] = [form, *others[: _MOST_FORMS - 1]]


def _event_in(canonical: bytes) -> bytes:
    """What is likely to be the event; only forms of that event are tried."""
    begin = canonical.find(_EVENT) + len(_EVENT)
    return canonical[begin : canonical.find(b'"', begin)]


class _Unlike(Exception):
    """A value that no pattern describes."""


@define
class _Pattern:
    """Writes the pattern of a record, and counts its groups."""

    text: str = ""
    _hidden: dict[str, int] = field(factory=dict, init=False)
    _groups: int = field(default=0, init=False)
    _digest: int = field(default=0, init=False)
    _is_placed: bool = field(default=False, init=False)
    _places: list[int] = field(factory=list, init=False)

    def form(self) -> RecordForm:
        """The form of the record that was read."""
        return RecordForm(
            pattern=re.compile(self.text.encode("ascii")),
            hidden=self._hidden,
            digest=self._digest,
            is_placed=self._is_placed,
            places=tuple(self._places),
        )

    def read(self, record: Mapping[str, Any]) -> None:
        """Take the record; raises _Unlike."""
        names, event = list(record), record.get("event")
        if not _is_plain(event) or event in _READ_WHOLE:
            raise _Unlike
        places = [bisect(names, own) for own in OURS]
        if not 0 < places[0] <= places[-1] < len(names) or not record.keys().isdisjoint(OURS):
            raise _Unlike  # no record of ours
        self._is_placed = "spool" in record
        members = []
        for at, name in enumerate(names):
            # Before the comma that is before this member.
            marks = "".join(self._mark() for place in places if place == at)
            members.append(f"{marks}{',' if at else ''}{_name(name)}:{self._member(record, name)}")
        self.text = f"\\{{{''.join(members)}\\}}"

    def _mark(self) -> str:
        self._groups += 1
        self._places.append(self._groups)
        return "()"

    def _member(self, record: Mapping[str, Any], name: str) -> str:
        value = record[name]
        if name == "event":
            return f'"{re.escape(value)}"'
        if name == "entities_digest" and record["event"] in DECIDED and _is_plain(value):
            self._groups += 1
            self._digest = self._groups
            return f'"({_TEXT})"'
        return self._value(value, name, _MOST_LEVELS)

    def _value(self, value: Any, path: str, levels: int) -> str:
        sort = type(value)
        if sort is str and _is_plain(value):
            return f'"{_TEXT}"'
        if sort is bool:
            return "(?:true|false)"
        if sort is int:
            return _NUMBER
        if value is None:
            return "null"
        if sort is list and all(map(_is_plain, value)):
            return f'\\[(?:"{_TEXT}"(?:,"{_TEXT}")*+)?+\\]'
        if sort is not dict or levels == 0:
            raise _Unlike
        if list(value) == [PERSONAL] and _is_plain(value[PERSONAL]):
            self._groups += 1
            self._hidden[path] = self._groups
            return f'\\{{"{PERSONAL}":"({_TEXT})"\\}}'
        members = (
            f"{_name(name)}:{self._value(inner, f'{path}.{name}', levels - 1)}"
            for name, inner in value.items()
        )
        return f"\\{{{','.join(members)}\\}}"


def _pattern(canonical: bytes, record: Mapping[str, Any]) -> _Pattern | None:
    """The pattern of a record; None where no pattern describes it."""
    found = _Pattern()
    try:
        found.read(record)
        is_exact = write_plain(record).encode() == canonical
    except (_Unlike, UnicodeEncodeError, RecursionError):
        return None
    return found if is_exact else None


def _is_plain(value: object) -> bool:
    return type(value) is str and _IS_TEXT.fullmatch(value) is not None


def _name(name: str) -> str:
    """A member's name; with a dot in it, the path of a value would not be its only one."""
    if _IS_NAME.fullmatch(name) is None:
        raise _Unlike
    return f'"{name}"'
