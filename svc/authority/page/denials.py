"""*My denials*: the person's own refused decisions, newest first, each as ``svc why`` explains it.

The log is read backwards, so many records at a time; a link goes on with the records before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache, partial
from typing import Any

from attrs import define, frozen
from twisted.logger import Logger

from svc.audit.log.entries import entry_record
from svc.audit.log.find import opened_session
from svc.audit.log.verify import ChainFault, batch_at
from svc.authority.page.html import Content, code, older, paragraph, table, text
from svc.authority.page.pages import Visit
from svc.authority.sessions.explain import Explainer
from svc.errors import Malformed
from svc.interfaces.store import IReadOnlyStore, ITransaction
from svc.messages.session import Explanation
from svc.model.audit.batch import ENTRIES, is_batch
from svc.model.audit.ledger import ChainRow

MOST_SHOWN = 50
STRETCH = 500
"""Records of one read of the store."""

MOST_READ = 20 * STRETCH
_REFUSED = ("deny", "error")
_MARKS = tuple(f'"decision":"{word}"' for word in _REFUSED)
_FIRST = (1, 0)
_NEWEST = (1 << 62, 0)
_PLACE = re.compile(r"([0-9]{1,18})\.([0-9]{1,6})\Z", re.ASCII)

_log = Logger(namespace="svc_authority")


Place = tuple[int, int]
"""The number of a record, and of an entry in it; 0 where it has none."""


@frozen
class _Denial:
    """A decision that refused something.

    Attributes:
        facts: What was asked, beside action and resource.
    """

    told: Explanation
    facts: str


@define
class DenialsPage:
    """The page.

    Attributes:
        explainer: Knows what the person may know of a decision.
    """

    store: IReadOnlyStore
    explainer: Explainer

    path = "/denials"
    title = "My denials"

    async def content(self, visit: Visit) -> Content:
        """A table; the next part begins before the last record that was looked at."""
        found, end = await self._denials(visit.visitor.person.id, _before(visit.given))
        shown: list[Any] = [
            paragraph(
                "Refusals of resources that you may not see now are not listed.  ",
                code("svc why ID"),
                " explains one decision in a terminal.  A command with ",
                code("--decision"),
                " works for ten minutes after the denial; after that, send the request again.",
            ),
            table(
                ("Time", "Resource", "Action", "Asked", "Why", "To ask for access", "Decision"),
                (_cells(one) for one in found),
                "Nothing was refused to you in these records.",
            ),
        ]
        if end > _FIRST:
            shown.append(older(self.path, "Older records", before="{}.{}".format(*end)))
        return shown

    async def _denials(self, person_id: str, before: Place) -> tuple[list[_Denial], Place]:
        """Newest first, and the place that the next part ends before."""
        found: list[_Denial] = []
        end = before
        for _ in range(MOST_READ // STRETCH):
            rows, end = await self.store.read(
                "a person's denials", partial(_stretch, before=end, person_id=person_id)
            )
            for place, record in rows:
                told = await self.explainer.explained(person_id, record)
                if told.explained:
                    found.append(_Denial(told, _facts(record)))
                if len(found) >= MOST_SHOWN:
                    return found, place
            if end <= _FIRST:
                break
        return found, end


def _stretch(
    tx: ITransaction, before: Place, person_id: str
) -> tuple[list[tuple[Place, dict[str, Any]]], Place]:
    """The refusals of a person in the records just before a place, newest first; their beginning.

    A place with an entry is in the midst of a batch, whose other entries are looked at again.
    """
    seq, entry = before
    last = min(seq if entry else seq - 1, tx.audit.head().seq)
    first = max(1, last - STRETCH + 1)
    rows = tx.audit.rows(first, last - first + 1) if last >= first else ()
    placed = [
        ((row.seq, one.get("index", 0)), one)
        for row in reversed(rows)
        for one in _of(tx, row, person_id)
    ]
    return [one for one in placed if one[0] < before], (first, 0)


def _of(tx: ITransaction, row: ChainRow, person_id: str) -> Iterator[dict[str, Any]]:
    """The refusals of this person in a row; of a batch the newest first."""
    text = row.canonical.decode("utf-8", "replace")
    if '"batch":' not in text and not (person_id in text and any(one in text for one in _MARKS)):
        return
    record = json.loads(text)
    if is_batch(record):
        yield from _entries(tx, row, record, person_id)
    elif _is_refusal(record, person_id):
        yield record


def _entries(
    tx: ITransaction, row: ChainRow, record: dict[str, Any], person_id: str
) -> Iterator[dict[str, Any]]:
    session_of = cache(partial(opened_session, tx))
    beside = tx.audit.personal(row.seq, row.seq).get(row.seq, ())
    entries = "".join(one.value for one in beside if one.path == ENTRIES)
    if not any(mark in entries for mark in _MARKS):
        return
    try:
        batch = batch_at(row, record, beside)
    except ChainFault as fault:
        _log.warn("a batch of records cannot be shown", record=row.seq, what=fault.what)
        return
    for index in reversed(range(len(batch.entries))):
        if batch.entries[index].get("decision") in _REFUSED:
            one = entry_record(record, batch, index, session_of)
            if _is_refusal(one, person_id):
                yield one


def _is_refusal(record: Mapping[str, Any], person_id: str) -> bool:
    is_own = record.get("actor") == {"kind": "person", "id": person_id}
    return is_own and record.get("decision") in _REFUSED and "decision_id" in record


def _facts(record: Mapping[str, Any]) -> str:
    """What the person asked for, in the words of policies; of personal values what is kept."""
    request = record.get("request")
    context = request.get("context") if isinstance(request, Mapping) else None
    if not isinstance(context, Mapping):
        return ""
    named = {name: _value(value) for name, value in context.items() if name not in _AROUND}
    return ", ".join(f"{name}={value}" for name, value in sorted(named.items()) if value)


_AROUND = frozenset({"now", "hour", "weekday", "proxy_reported", "mfa_age_seconds"})
"""Facts of the moment, not of what was asked."""


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        value = value.get("value", "")
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _cells(found: _Denial) -> list[Any]:
    told = found.told
    named = [f"{one}: {told.why[one]}" if one in told.why else one for one in told.policies]
    why = "; ".join([told.reason or told.decision, *named])
    return [
        text(told.time[:19].replace("T", " ")),
        text(told.resource),
        text(told.action),
        text(found.facts),
        text(why, 1000),
        code(told.request_hint) if told.request_hint else "",
        code(told.decision_id),
    ]


def _before(given: Mapping[str, str]) -> Place:
    word = given.get("before")
    if word is None:
        return _NEWEST
    found = _PLACE.match(word)
    if found is None:
        raise Malformed("the address names no record")
    return int(found[1]), int(found[2])
