"""Recognises entries of batches whose text was read before, so that they need no parsing.

Most requests were made before: their entries differ in the numbers, the time, the decision's id
and the salts alone.  The text of an entry without these is remembered once it was parsed and
found good.  An entry of the same text is then good, too: a text that was parsed is the whole of
one object, and what was left out of it is matched by patterns that allow one form only.  The
commitments of the row are checked in any case, over every byte.  Pure.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from operator import add, ge
from typing import Any, TypeAlias

from attrs import define, field, frozen

from svc.errors import Malformed
from svc.model.audit.batch import (
    ENTRIES,
    SESSIONS,
    VALUES,
    BatchClaims,
    RequestHeader,
    listed,
    read_headers,
    texts_beside,
)
from svc.model.audit.hidden import hash_of_value, hidden_at, hidden_in_order
from svc.model.audit.ledger import PersonalValue
from svc.model.audit.plain_json import read_plain, write_plain

MOST_KEPT = 8 * 1024 * 1024
"""Characters of entries that are remembered."""

_NAMES = "[A-Za-z0-9_.]{1,256}+"
_NUMBER = "(?:0|[1-9][0-9]{0,14}+)"
_PLAIN = r'"[^"\\\n]*+"'
_ENTRY = re.compile(
    r'("decision_id":"[0-9a-f]{32}"'
    r'(?:,"frames":"[0-9a-f]*+")?+'
    rf'((?:,"policies":\[(?:{_PLAIN}(?:,{_PLAIN})*+)?+\])?+)'
    rf'(?:,"range":\[{_NUMBER},{_NUMBER}\])?+'
    rf'((?:,"reason":{_PLAIN})?+)'
    rf',"session":({_NUMBER}),"session_n":({_NUMBER}),"time":"([0-9TZ:.-]++)"\}})(?:,|\]\Z)'
)
"""The end of an entry, and what is before the next one."""

_VALUE = re.compile(
    rf'\[({_NUMBER}),"({_NAMES})","([0-9a-f]{{32}})","((?:[^"\\\n]|\\[^\n])*+)"\](?:,|\]\Z)'
)
_HIDDEN, _HASH = '{"personal":"', 64
_IS_HASH = re.compile("[0-9a-f]{64}")
_NOW, _LONGEST_NOW, _ID = '"now":', 15, '"decision_id":'
_TEXTS = ("action", "cedar_action", "decision")
_ALWAYS = frozenset({*_TEXTS, "context", "decision_id"})
_MEMBERS = _ALWAYS | {*("frames", "policies", "range", "reason", "session", "session_n", "time")}
_AFTER_HASH = len('"}')
_MARK, _MARK_NOW = "\n", "\t"
"""Stand in a key for what was left out: no JSON text has them."""


class _Unusual(Malformed):
    """Written as few are: only reading the batch as a whole can judge it."""

    def __init__(self) -> None:
        super().__init__("request batch: it is not written as most are")


_Value: TypeAlias = "tuple[int, str, str]"
"""A personal value: the number of its entry, its path, and its text as it stands in quotes."""

_Told: TypeAlias = "tuple[str, str]"
"""Path and quoted text of what an entry hides; :data:`_ERASED` for what is not there any more."""

_ERASED = ("", "")


@frozen
class KeyedBatch:
    """A batch whose commitments hold.

    Attributes:
        sessions: Of each entry, the place of its header.
        keys: Of each entry, all that replay looks at, but for its session and the next two.
        times: When each was made.
        nows: The fact of that name in each; empty where there is none.
        values: The personal values of each that are not erased, as :data:`_Told`.
        parsed: The JSON forms of those that were not known.
    """

    headers: Sequence[RequestHeader]
    sessions: Sequence[int]
    keys: Sequence[str]
    times: Sequence[str]
    nows: Sequence[str]
    texts: Sequence[str] = field(repr=False)
    values: Sequence[Sequence[_Told]] = field(repr=False)
    parsed: Mapping[int, Mapping[str, Any]] = field(repr=False)

    def entry(self, index: int) -> Mapping[str, Any]:
        """The JSON form of an entry."""
        found = self.parsed.get(index)
        return read_plain(self.texts[index]) if found is None else found

    def told(self, index: int) -> dict[str, str]:
        """The personal values of an entry by their paths, each as its canonical JSON."""
        return {path: _unquoted(quoted) for path, quoted in self.values[index] if path}

    def whole(self, index: int, now: str) -> str | None:
        """The JSON of an entry with its personal values, and without what is not in its key.

        Args:
            now: Stands for the fact of that name.

        Returns:
            None where a value was erased.
        """
        if _ERASED in self.values[index]:
            return None
        first, *others, end = self.keys[index].split(_MARK)
        pieces = [first]
        for at in range(0, len(others), 3):
            pieces += _unquoted(others[at + 1]), others[at + 2][_AFTER_HASH:]
        # Before the end there is a comma, whatever follows.
        text = f"{''.join(pieces)[:-1]}{end}}}"
        return text.replace(_MARK_NOW, f"{_NOW}{now}") if self.nows[index] else text


@define
class EntryKeys:
    """The entries that were read lately, to a size."""

    most: int = MOST_KEPT
    _kept: OrderedDict[str, str] = field(factory=OrderedDict, init=False)
    _size: int = field(default=0, init=False)

    def read(self, record: Mapping[str, Any], beside: Sequence[PersonalValue]) -> KeyedBatch | None:
        """The batch of *record*, as :func:`read_batch` reads it; None where that has to be asked.

        Whatever is wrong is said there, and so is what is good and written as few are.
        """
        try:
            claims = BatchClaims.of(record)
            texts = texts_beside(beside)
            headers = read_headers(texts[SESSIONS], claims)
            return self._batch(claims, headers, texts[ENTRIES], texts[VALUES])
        except (Malformed, UnicodeEncodeError):
            return None

    def _batch(
        self, claims: BatchClaims, headers: Sequence[RequestHeader], text: str, beside: str
    ) -> KeyedBatch:
        heads, ends, policies, reasons, sessions, numbers, times = _parts(_ENTRY, text)
        texts = list(map(add, heads, ends))
        claims.check_entries([one.encode() for one in texts])
        places = list(map(int, sessions))
        claims.check_numbers(zip(places, map(int, numbers), strict=True))
        hidden, unknown = _hidden_in(beside), dict[str, int]()
        keys, nows, values = list[str](), list[str](), list[Sequence[_Told]]()
        for index, (head, end) in enumerate(zip(heads, map(add, policies, reasons), strict=True)):
            now, fixed = _without_now(head)
            first, *others = fixed.split(_HIDDEN)
            own = [_told(index, other[:_HASH], hidden) for other in others]
            key = _key_of(first, own, others, end)
            known = self._kept.get(key)
            if known is None:
                unknown.setdefault(key, index)  # the first is read, and then the others are known
                known = key
            keys.append(known)
            nows.append(now)
            values.append(own)
        if hidden:  # of no entry, or of another one
            raise _Unusual
        parsed = _parsed(text, texts, list(unknown.values()))
        for index, entry in parsed.items():
            _check(entry, texts[index], nows[index], values[index])
        for key in unknown:
            self._keep(key)
        return KeyedBatch(
            headers=headers,
            sessions=places,
            keys=keys,
            times=times,
            nows=nows,
            texts=texts,
            values=values,
            parsed=parsed,
        )

    def _keep(self, key: str) -> None:
        """The oldest are let go."""
        self._kept[key] = key
        self._size += len(key)
        while self._size > self.most:
            oldest, _ = self._kept.popitem(last=False)
            self._size -= len(oldest)


def _parts(pattern: re.Pattern[str], text: str) -> tuple[list[str], ...]:
    """What stands before each match and its groups, of all of a list; raises _Unusual."""
    found = pattern.split(text[1:])
    is_list = text[:1] == "[" and text[-1:] == "]" and not found.pop()
    if not is_list or _MARK in text or _MARK_NOW in text:
        raise _Unusual
    groups = pattern.groups + 1
    return tuple(found[at::groups] for at in range(groups))


def _without_now(head: str) -> tuple[str, str]:
    """The fact, and the text with a mark in its place."""
    before, name, after = head.partition(_NOW)
    if not name:
        return "", head
    end = after.find(",")
    now = after[:end]
    if not (now.isascii() and now.isdecimal() and len(now) <= _LONGEST_NOW and now[0] != "0"):
        raise _Unusual
    return now, f"{before}{_MARK_NOW}{after[end:]}"


def _hidden_in(text: str) -> dict[str, _Value]:
    """The personal values beside a batch, by their hashes."""
    if text == "[]":
        return {}
    between, indexes, paths, salts, quoted = _parts(_VALUE, text)
    if any(between):
        raise _Unusual
    places = list(zip(map(int, indexes), paths, strict=True))
    if any(map(ge, places, places[1:])):
        raise _Unusual
    known, unquoted = dict[tuple[str, str], bytes](), dict[str, str]()
    found = dict[str, _Value]()
    for place, salt, one in zip(places, salts, quoted, strict=True):
        value = unquoted.get(one)
        if value is None:
            value = unquoted[one] = _unquoted(one)
        hashed = hash_of_value(place[1], bytes.fromhex(salt), value, known)
        found[hashed] = (*place, one)
    if len(found) != len(places):
        raise _Unusual
    return found


def _told(index: int, hashed: str, hidden: dict[str, _Value]) -> _Told:
    """The value that an entry hides; it is taken out, since no other entry may hide it."""
    value = hidden.pop(hashed, None)
    if value is None:
        if _IS_HASH.fullmatch(hashed) is None:
            raise _Unusual
        return _ERASED
    if value[0] != index:
        raise _Unusual
    return value[1:]


def _key_of(first: str, own: Sequence[_Told], others: Sequence[str], end: str) -> str:
    if len(own) == 1:
        [(path, quoted)], [after] = own, others
        return f"{first}{_MARK}{path}{_MARK}{quoted}{_MARK}{after[_HASH:]}{_MARK}{end}"
    pieces = [first]
    for (path, quoted), after in zip(own, others, strict=True):
        pieces += path, quoted, after[_HASH:]
    return _MARK.join((*pieces, end))


def _parsed(
    text: str, texts: Sequence[str], unknown: Sequence[int]
) -> Mapping[int, Mapping[str, Any]]:
    """The entries of these numbers, each of them in the one form.

    Raises:
        Malformed: one is not, or is no object that its text is the whole of.
    """
    if 2 * len(unknown) > len(texts):  # it takes less to read all at once
        entries, written = listed(text, len(texts))
        if written != texts:
            raise _Unusual
        return {index: entries[index] for index in unknown}
    found = {index: read_plain(texts[index]) for index in unknown}
    if any(write_plain(entry) != texts[index] for index, entry in found.items()):
        raise _Unusual
    return found


def _check(entry: Any, text: str, now: str, own: Sequence[_Told]) -> None:
    """Return if each mark in the key of an entry stands for what it should; raises _Unusual."""
    if type(entry) is not dict or not _ALWAYS <= entry.keys() <= _MEMBERS:
        raise _Unusual
    context, policies = entry["context"], entry.get("policies", ())
    plain = [entry[name] for name in _TEXTS] + [entry.get("reason", ""), *policies]
    is_usual = (
        type(context) is dict
        and all(type(one) is str for one in plain)
        and text.count(_ID) == 1
        and text.count(_NOW) == (1 if now else 0)
        and (not now or type(context.get("now")) is int)
    )
    paths = hidden_in_order(entry)
    if not is_usual or len(paths) != len(own):
        raise _Unusual
    for (path, _), there in zip(own, paths, strict=True):
        if path not in ("", there) or len(hidden_at(entry, there)) != _HASH:
            raise _Unusual


def _unquoted(quoted: str) -> str:
    """A text, of what stands between its quotes in the one form."""
    whole = f'"{quoted}"'
    value = read_plain(whole)
    if type(value) is not str or write_plain(value) != whole:
        raise _Unusual
    return value
