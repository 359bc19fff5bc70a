"""Showing a record to a person or a program.

Pure.  A record holds what peers said, so nothing of it reaches a terminal or a
file unescaped: control and format characters, bidirectional marks and
backslashes become visible escapes, one record never becomes two lines.  Names
are looked up when shown; they are not in the log.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence

from svc.audit.log.record import PERSONAL
from svc.audit.log.verify import is_hidden
from svc.errors import Malformed
from svc.model.audit.ledger import ChainRow, PersonalValue
from svc.model.canonical import Json, decode

NameOf = Callable[[str, str], str | None]
"""``name_of(kind, id)``: what an actor is called today, or None."""

_NOT_ASCII_TEXT = re.compile(r"[\x7f-\U0010ffff]")


SHORT = 8
"""So many digits of a session's id are shown where there is little room."""

NO_TIME = "-"


def no_name(kind: str, id: str) -> str | None:
    """Knows nobody."""
    return None


def document(
    row: ChainRow, personal: Sequence[PersonalValue] = (), name_of: NameOf = no_name
) -> dict[str, Json]:
    """The record with its place in the chain, the actor's name, and what was not erased.

    A personal value shows as ``{"personal": HASH, "value": …}``, an erased one
    as ``{"erased": true, "personal": HASH}``.  A value that does not match its
    hash is not shown.

    Raises:
        Malformed: the row does not hold a record.
    """
    record = decode(row.canonical)
    if not isinstance(record, dict):
        raise Malformed("audit record: not an object")
    values = {each.path: each for each in personal}
    shown = {name: _opened(name, value, values) for name, value in record.items()}
    actor = record.get("actor")
    if isinstance(actor, Mapping):
        name = name_of(str(actor.get("kind")), str(actor.get("id")))
        shown["actor"] = actor if name is None else {**actor, "name": name}
    shown["seq"] = row.seq
    shown["prev_hash"] = row.prev_hash.hex()
    shown["hash"] = row.hash.hex()
    return shown


def damaged(first: int, what: str, last: int | None = None) -> dict[str, Json]:
    """What stands in the place of records that cannot be shown."""
    shown: dict[str, Json] = {"seq": first, "damaged": what}
    return shown if last in (None, first) else {**shown, "last_seq": last}


def as_line(shown: Mapping[str, Json]) -> str:
    """One line for a person, in columns; nothing a peer said can end it."""
    if "event" not in shown:
        last = f" to {shown['last_seq']}" if "last_seq" in shown else ""
        return f"{NO_TIME:20}  {shown['seq']!s:>7}{last}  DAMAGED: {escape(str(shown['damaged']))}"
    session = str(shown.get("session_uid") or "")
    columns = (
        (str(shown.get("time"))[:19] + "Z", 20),
        (str(shown.get("seq")).rjust(7), 7),
        (shown.get("event"), 18),
        (shown.get("decision"), 5),
        (_who(shown.get("actor")), 12),
        (shown.get("resource_id"), 12),
        (session[:SHORT], SHORT),
        (shown.get("reason"), 0),
    )
    cells = [(_plainly(value) or "-").ljust(width) for value, width in columns]
    mark = f"  DAMAGED: {escape(str(shown['damaged']))}" if "damaged" in shown else ""
    return "  ".join(cells).rstrip() + mark


def heads() -> str:
    """The line over lines of :func:`as_line`."""
    return (
        f"{'TIME':20}  {'SEQ':>7}  {'EVENT':18}  {'WHAT':5}  {'WHO':12}  {'RESOURCE':12}  "
        f"{'SESSION':{SHORT}}  REASON"
    )


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
    """One line a field, the dotted name first; nothing a peer said can look like a line."""
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
    elif isinstance(value, Mapping):
        for key in value:
            _flatten(f"{name}.{key}", value[key], lines)
    elif isinstance(value, str):
        lines.append((escape(name), escape(value)))
    elif isinstance(value, (list, tuple)):
        lines.append((escape(name), ", ".join(escape(str(each)) for each in value)))
    else:
        lines.append((escape(name), json.dumps(value)))
