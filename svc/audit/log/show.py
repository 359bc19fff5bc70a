"""Shows a record to a person or a program.

Pure.  A record holds what peers said, so nothing of it reaches a terminal or a
file unescaped: control and format characters, bidirectional marks and
backslashes become visible escapes, one record never becomes two lines.  Names
are looked up when shown; they are not in the log.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence

from attrs import define, field

from svc.audit.log.about import SHORT, NameOf, about
from svc.audit.log.record import PERSONAL, is_hidden
from svc.errors import Malformed
from svc.model.audit.ledger import ChainRow, PersonalValue
from svc.model.canonical import Json, decode

_NOT_ASCII_TEXT = re.compile(r"[\x7f-\U0010ffff]")

NOTHING = "-"
"""What an empty value looks like."""


def no_name(kind: str, id: str) -> str | None:
    """Returns no name."""
    return None


def document(
    row: ChainRow, personal: Sequence[PersonalValue] = (), name_of: NameOf = no_name
) -> dict[str, Json]:
    """The record with its place in the chain, names, and what was not erased.

    Beside the actor's name there is ``about``: who or what it is about, by today's names.

    A personal value shows as ``{"personal": HASH, "value": …}``, an erased one
    as ``{"erased": true, "personal": HASH}``.  A value that does not match its
    hash is not shown.

    Raises:
        Malformed: the row does not hold a record.
    """
    record = decode(row.canonical)
    if not isinstance(record, dict):
        raise Malformed("audit record: it is not an object")
    values = {each.path: each for each in personal}
    shown = {name: _opened(name, value, values) for name, value in record.items()}
    actor = record.get("actor")
    if isinstance(actor, Mapping):
        name = name_of(str(actor.get("kind")), str(actor.get("id")))
        shown["actor"] = actor if name is None else {**actor, "name": name}
    subject = about(shown, name_of)
    if subject:
        shown["about"] = subject
    shown["seq"] = row.seq
    shown["prev_hash"] = row.prev_hash.hex()
    shown["hash"] = row.hash.hex()
    return shown


def entry_document(
    row: ChainRow, record: dict[str, Json], name_of: NameOf = no_name
) -> dict[str, Json]:
    """An entry of the batch that *row* is, in the form of :func:`document`.

    Args:
        record: As :func:`svc.audit.log.requests.entry_record` gives it.
    """
    shown = {name: _marked(value) for name, value in record.items()}
    actor = record.get("actor")
    if isinstance(actor, Mapping):
        name = name_of(str(actor.get("kind")), str(actor.get("id")))
        shown["actor"] = actor if name is None else {**actor, "name": name}
    subject = about(shown, name_of)
    if subject:
        shown["about"] = subject
    shown |= {"seq": row.seq, "prev_hash": row.prev_hash.hex(), "hash": row.hash.hex()}
    return shown


def _marked(value: Json) -> Json:
    """*value* with every erased place in it told."""
    if not isinstance(value, Mapping):
        return value
    if set(value) == {PERSONAL}:
        return {**value, "erased": True}
    return {name: _marked(item) for name, item in value.items()}


def damaged(first: int, what: str, last: int | None = None) -> dict[str, Json]:
    """The entry shown in place of records that cannot be read."""
    shown: dict[str, Json] = {"seq": first, "damaged": what}
    return shown if last in (None, first) else {**shown, "last_seq": last}


_HEADS = ("TIME", "SEQ", "EVENT", "WHAT", "WHO", "ABOUT", "SESSION", "REASON")
_LEAST = (20, 7, 18, 5, 12, 12, SHORT, 0)
"""No column is narrower, so that most of what is shown later stands in line as well."""


@define
class Columns:
    """One line for each record, for people; text from a peer cannot end the line.

    A column is as wide as the widest word that was shown in it, so none runs into the next: the
    records of one call stand in line, and what is shown later may move further to the right.
    """

    _widths: list[int] = field(factory=lambda: list(_LEAST), init=False)

    def lines(self, records: Iterable[Mapping[str, Json]], *, heads: bool = False) -> list[str]:
        """Their lines, below the heads if they are asked for."""
        shown = [(_cells(record), _mark(record)) for record in records]
        if heads:
            shown.insert(0, (list(_HEADS), ""))
        for cells, _ in shown:
            if len(cells) == len(_HEADS):
                self._widths = list(map(max, self._widths, map(len, cells)))
        return [self._line(cells) + mark for cells, mark in shown]

    def _line(self, cells: Sequence[str]) -> str:
        padded = [
            cell.rjust(width) if at == 1 else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(cells, self._widths, strict=False))
        ]
        return "  ".join(padded).rstrip()


def _cells(shown: Mapping[str, Json]) -> list[str]:
    """What stands in the columns; of what is no record the first two."""
    seq = f"{shown['seq']}.{shown['index']}" if "index" in shown else str(shown["seq"])
    if "event" not in shown:
        return [NOTHING, f"{seq} to {shown['last_seq']}" if "last_seq" in shown else seq]
    columns = (
        str(shown.get("time"))[:19] + "Z",
        seq,
        shown.get("event"),
        shown.get("decision"),
        _who(shown.get("actor")),
        shown.get("about"),
        str(shown.get("session_uid") or "")[:SHORT],
        shown.get("reason"),
    )
    return [_plainly(value) or NOTHING for value in columns]


def _mark(shown: Mapping[str, Json]) -> str:
    return f"  DAMAGED: {escape(str(shown['damaged']))}" if "damaged" in shown else ""


def _who(actor: Json) -> str:
    """A person by name; of everybody else the kind as well."""
    if not isinstance(actor, Mapping):
        return ""
    name = str(actor.get("name") or actor.get("id") or "")
    return name if actor.get("kind") == "person" else f"{actor.get('kind')} {name}".rstrip(" -")


def _plainly(value: Json) -> str:
    """A value on one line, a personal one as it is known."""
    if isinstance(value, Mapping) and PERSONAL in value:
        value = value.get("value", "(erased)")
    return "" if value is None else escape(str(value))


def as_json(shown: Mapping[str, Json]) -> str:
    """One line of ASCII: an export a program reads back exactly."""
    text = json.dumps(shown, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return _NOT_ASCII_TEXT.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def as_text(shown: Mapping[str, Json]) -> str:
    """One line for each field, the dotted name first; text from a peer cannot look like a line."""
    first = ("seq", "time", "event", "code", "decision", "reason", "decision_id")
    lines: list[tuple[str, str]] = []
    for name in (*[each for each in first if each in shown], *sorted(set(shown) - set(first))):
        _flatten(name, shown[name], lines)
    width = max(len(name) for name, _ in lines)
    return "\n".join(f"{name.ljust(width)}  {value}" for name, value in lines)


def escape(text: str) -> str:
    r"""*text* on one line: backslashes doubled, what does not print as ``\xNN`` or ``\uNNNN``."""
    return "".join(
        each
        if each.isprintable() and each != "\\"
        else each.encode("unicode_escape").decode("ascii")
        for each in text
    )


def _opened(path: str, value: Json, values: Mapping[str, PersonalValue]) -> Json:
    """*value* with every personal place in it told or said to be erased."""
    if isinstance(value, (list, tuple)) or not isinstance(value, Mapping):
        return value
    if set(value) != {PERSONAL}:
        return {name: _opened(f"{path}.{name}", item, values) for name, item in value.items()}
    kept = values.get(path)
    if kept is None or not is_hidden(value, kept):
        return {**value, "erased": True}
    return {**value, "value": decode(kept.value.encode("utf-8"))}


def _flatten(name: str, value: Json, lines: list[tuple[str, str]]) -> None:
    if isinstance(value, Mapping) and PERSONAL in value and "value" in value:
        _flatten(name, value["value"], lines)
    elif isinstance(value, Mapping) and PERSONAL in value and value.get("erased") is True:
        lines.append((escape(name), "(erased)"))
    elif isinstance(value, Mapping) and value:
        for key in value:
            _flatten(f"{name}.{key}", value[key], lines)
    else:
        lines.append((escape(name), _in_words(value) or NOTHING))


def _in_words(value: Json, between: str = ", ") -> str:
    """A value on one line: of a list its items, of a list in it the words of one item."""
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, (list, tuple)):
        return between.join(_in_words(each, " ") for each in value)
    return json.dumps(value) if value not in (None, {}) else ""
