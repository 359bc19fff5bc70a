"""Checks the personal values beside a batch of requests against the hashes in its entries.  Pure.

Nearly all are written alike, so one pattern finds them all and nothing is parsed.  Whatever is not
good by it is parsed and checked one by one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from svc.audit.ingest.entries import JudgedEntry
from svc.errors import Malformed
from svc.model.audit.batch import MAX_ENTRIES, MAX_TEXT_BYTES, RequestValue, listed
from svc.model.audit.hidden import hash_of_value, hashed_value, salted_hash

_VALUE_TEXT = re.compile(
    r'(\[(0|[1-9][0-9]{0,14}),"([A-Za-z0-9_.]{1,256})","([0-9a-f]{32})","'
    r'((?:[ !#-\[\]-~]|\\")*+)"\])'
)
"""A personal value of printable ASCII, in which only quotes are escaped."""

_PLACES = tuple(map(str, range(MAX_ENTRIES)))


def check_values(text: str, entries: Sequence[JudgedEntry]) -> None:
    """Return if the personal values in *text* are those that *entries* hide.

    Raises:
        Malformed: naming the first thing that is not so.
    """
    if not _are_hidden(text, entries):
        check_each_value(text, entries)


def _are_hidden(text: str, entries: Sequence[JudgedEntry]) -> bool:
    """Whether the values are those, and written as nearly all are; it says yes or nothing."""
    found = _VALUE_TEXT.findall(text)
    if f"[{','.join([one[0] for one in found])}]" != text:
        return False
    due = [
        (at, path, hashed)
        for at, entry in zip(_PLACES, entries, strict=False)
        for path, hashed in zip(entry.paths, entry.hidden, strict=True)
    ]
    if len(found) != len(due):
        return False
    known: dict[tuple[str, str], bytes] = {}
    try:
        for (_, at, path, salt, value), (due_at, due_path, due_hash) in zip(
            found, due, strict=True
        ):
            hashed = known.get((path, value))
            if hashed is None:
                hashed = known[path, value] = hashed_value(path, value.replace('\\"', '"'))
            if at != due_at or path != due_path:
                return False
            if salted_hash(bytes.fromhex(salt), hashed) != due_hash:
                return False
    except Malformed:
        return False
    return True


def check_each_value(text: str, entries: Sequence[JudgedEntry]) -> None:
    """As :func:`check_values`, one by one; whatever is wrong is named here."""
    found, _ = listed(text, MAX_TEXT_BYTES)
    due = [
        (index, path, hashed)
        for index, entry in enumerate(entries)
        for path, hashed in zip(entry.paths, entry.hidden, strict=True)
    ]
    values = [RequestValue.of(one) for one in found]
    if [(one.index, one.path) for one in values] != [(index, path) for index, path, _ in due]:
        raise Malformed("request batch: the personal values beside it are not those that it hides")
    known = dict[tuple[str, str], bytes]()
    for value, (_, path, hashed) in zip(values, due, strict=True):
        if hash_of_value(path, value.salt, value.value, known) != hashed:
            raise Malformed("request batch: a personal value is not the one that was hashed")
