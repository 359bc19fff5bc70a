"""Remembers how good rows of kinds' own events are written, so that each like them is not parsed.

What the gate of a kind notes differs from row to row in ids, hashes, numbers, plain words and the
time, and in nothing else that is judged.  A form is the text of a row that was judged, with these
cut out, of one origin and one event.  What was cut out is canonical in any row that matches, and
whoever asks judges it.  Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from attrs import define, field

from svc.audit.ingest.facts import is_marker
from svc.audit.ingest.members import NEEDED, EventForm
from svc.audit.log.forms import is_second
from svc.model.audit.plain_json import write_plain
from svc.model.audit.spool import FIRST_N, SpoolPlace, SpoolRow
from svc.model.cluster.node import Node

_MEMBERS = NEEDED | {"details", "resource_id", "resource_kind", "session_uid"}
_LONGEST = 4096
_MOST_FORMS = 4
"""Of one origin."""

_MOST_ORIGINS = 64
_MOST_SEEN = 256
_PRICE = 20
"""Rows that are judged by themselves before one more form is made, which takes as long."""

_HASH = "([0-9a-f]{64})"
_WORD = "[A-Za-z0-9._-]{0,256}+"
_NUMBER = "(?:0|-?[1-9][0-9]{0,14}+)"
_IS_WORD = re.compile(_WORD)
_CUT_OUT = {
    "actor": '"id":"([a-z0-9:]{1,64}+)","kind":',
    "event_id": '"([0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12})"',
    "resource_id": f'"({_WORD})"',
    "session_uid": '"([0-9a-f]{32})"',
    "spool": r'\{"id":"([0-9a-f]{32})","n":([1-9][0-9]{0,14}+),"prev":"([0-9a-f]{64})"\}',
    "time": r'"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})\.[0-9]{6}Z"',
}


class NotedRow(NamedTuple):
    """What a row says beside what its form says.

    Attributes:
        said: The members that tell whose session it is of; see ``check_of_session``.
        hidden: The hash of each personal value, by path.
    """

    event: EventForm
    event_id: str
    place: SpoolPlace
    said: Mapping[str, Any]
    details: Mapping[str, Any]
    hidden: Mapping[str, str]


class _Form(NamedTuple):
    """How rows of an event are written.

    Attributes:
        details: Those of whom they are; they are in the pattern.
        paths: Of the personal values, in order.
    """

    role: str
    event: EventForm
    pattern: re.Pattern[str]
    actor_kind: str
    resource_kind: str
    details: Mapping[str, Any]
    paths: tuple[str, ...]

    def read(self, text: str) -> NotedRow | None:
        """What a row of this form says; None where it is none."""
        found = self.pattern.fullmatch(text)
        if found is None:
            return None
        id, *hidden, event_id, resource, uid, spool_id, n, prev, second = found.groups()
        if int(n) == FIRST_N or not is_second(second):
            return None
        return NotedRow(
            event=self.event,
            event_id=event_id,
            place=SpoolPlace(spool_id, int(n), bytes.fromhex(prev)),
            said={
                "actor": {"id": id, "kind": self.actor_kind},
                "resource_id": resource,
                "resource_kind": self.resource_kind,
                "session_uid": uid,
            },
            details=self.details,
            hidden=dict(zip(self.paths, hidden, strict=True)),
        )


@define
class KnownRows:
    """The forms of the rows that were judged lately, by the same kinds; threads may share it."""

    _forms: dict[tuple[str, str], tuple[_Form, ...]] = field(factory=dict, init=False)
    _seen: dict[str, None] = field(factory=dict, init=False)
    _credit: int = field(default=_PRICE * _MOST_FORMS, init=False)

    def read(self, row: SpoolRow, node: Node) -> NotedRow | None:
        """What a row of a known form says; None where it is of none."""
        forms = self._forms.get((node.id, row.key_id))
        if forms is None or len(row.canonical) > _LONGEST:
            return None
        text = row.canonical.decode("latin-1")  # no form has anything but ASCII
        for form in forms:
            said = form.read(text) if form.role == node.role else None
            if said is not None:
                return said
        return None

    def judged(
        self, row: SpoolRow, node: Node, event: EventForm, record: Mapping[str, Any]
    ) -> None:
        """Remember a good row; the second of its form finds the next."""
        self._credit = min(self._credit + 1, _PRICE * _MOST_FORMS)
        is_plain = len(row.canonical) <= _LONGEST and row.canonical.isascii()
        if not event.kind or not is_plain or record.keys() != _MEMBERS:
            return
        details = record["details"]
        pattern = f"\\{{{','.join(_members(record))}\\}}"
        if pattern not in self._seen:
            if len(self._seen) >= _MOST_SEEN:
                self._seen.clear()
            self._seen[pattern] = None
            return
        if self._credit < _PRICE:
            return
        self._credit -= _PRICE
        form = _Form(
            role=node.role,
            event=event,
            pattern=re.compile(pattern),
            actor_kind=record["actor"]["kind"],
            resource_kind=record["resource_kind"],
            details={name: value for name, value in details.items() if name in OF_WHOM},
            paths=tuple(f"details.{name}" for name in details if is_marker(details[name])),
        )
        if len(self._forms) >= _MOST_ORIGINS and (node.id, row.key_id) not in self._forms:
            self._forms.clear()
        others = self._forms.get((node.id, row.key_id), ())
        self._forms[node.id, row.key_id] = (form, *others[: _MOST_FORMS - 1])


OF_WHOM = {"person_id": "person", "connector_id": "node", "proxy_id": "node"}
"""Details that name somebody."""


def _members(record: Mapping[str, Any]) -> Iterator[str]:
    """The pattern of each member of a record, in their order."""
    for name, value in record.items():
        if name == "details":
            members = (f'"{each}":{_detail(each, of)}' for each, of in value.items())
            yield f'"details":\\{{{",".join(members)}\\}}'
        elif name == "actor":
            kind = re.escape(write_plain(value["kind"]))
            yield f'"actor":\\{{{_CUT_OUT["actor"]}{kind}\\}}'
        else:
            yield f'"{name}":{_CUT_OUT.get(name) or re.escape(write_plain(value))}'


def _detail(name: str, value: Any) -> str:
    """The pattern of a field."""
    if is_marker(value):
        return f'\\{{"personal":"{_HASH}"\\}}'
    if type(value) is bool:
        return "(?:true|false)"
    if type(value) is int:
        return _NUMBER
    if type(value) is str and name not in OF_WHOM and _IS_WORD.fullmatch(value):
        return f'"{_WORD}"'
    return re.escape(write_plain(value))
