r"""Converts records for other systems: CEF, and events of Splunk's HTTP Event Collector.

Pure.  These are copies to search in; only the lines of ``svc.audit.log.export`` can
be verified.  Everything is ASCII: what a peer said cannot end a field, a record
or a line, nor make a terminal obey it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import cast

from svc import __version__
from svc.audit.log.covered import CoveredRow
from svc.audit.log.entries import SessionOf, entry_record
from svc.audit.log.record import PERSONAL
from svc.audit.log.show import as_json
from svc.audit.log.verify import ChainFault
from svc.model.audit.ledger import PersonalValue
from svc.model.canonical import Json

_SEVERITY = {"info": 3, "warning": 6, "error": 9}
_UNFIT = re.compile(r"[^ -~]")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_KEYS = {
    "seq": "externalId",
    "origin": "deviceExternalId",
    "class": "cat",
    "cedar_action": "act",
    "decision": "outcome",
    "reason": "reason",
    "actor.id": "suid",
}
"""Members that have a key of the CEF dictionary; the others get one of ours."""

_LEFT_OUT = ("code", "event", "request", "severity", "time")
"""In the header, or of more levels than a flat form can say."""


def by_request(entry: CoveredRow, session_of: SessionOf) -> Iterator[CoveredRow]:
    """The record itself, or each entry of a batch as a record of its own."""
    if entry.batch is None:
        yield entry
        return
    for index in range(len(entry.batch.entries)):
        yield CoveredRow(entry.row, entry_record(entry.record, entry.batch, index, session_of))


def splunk_hec(entry: CoveredRow) -> str:
    """One event for ``/services/collector/event``; its ``event`` is the record as shown."""
    shown = _shown(entry)
    body = as_json(
        {
            "event": shown,
            "host": shown.get("origin", ""),
            "source": "svc",
            "sourcetype": "svc:audit",
        }
    )
    micros = _micros(entry, shown)
    # A number with a fraction has no place in canonical JSON, so it is put in by hand.
    return f'{body[:-1]},"time":{micros // 1_000_000}.{micros % 1_000_000:06d}}}'


def cef(entry: CoveredRow) -> str:
    """One line of the Common Event Format, version 0."""
    shown = _shown(entry)
    header = (
        "CEF:0",
        "svc",
        "svc",
        __version__,
        shown.get("code", ""),
        shown.get("event", ""),
        _SEVERITY.get(str(shown.get("severity")), 5),
    )
    fields = [f"rt={_micros(entry, shown) // 1000}"]
    for name in sorted(set(shown) - set(_LEFT_OUT)):
        fields += (f"{_key(path)}={_value(text)}" for path, text in _flat(name, shown[name]))
    return "|".join(map(_in_header, header)) + "|" + " ".join(fields)


def _shown(entry: CoveredRow) -> dict[str, Json]:
    """The record with its place in the chain, and the personal values that are to be told."""
    shown = cast("dict[str, Json]", dict(entry.record))
    for value in entry.personal:
        _insert(shown, value.path.split("."), value)
    row = entry.row
    shown |= {"seq": row.seq, "prev_hash": row.prev_hash.hex(), "hash": row.hash.hex()}
    return shown


def _insert(form: dict[str, Json], path: Sequence[str], value: PersonalValue) -> None:
    """Put *value* beside its hash; *form* is ours, what is below it is not."""
    below = form[path[0]]
    assert isinstance(below, dict)  # the value was found to be the one hashed there
    form[path[0]] = below = dict(below)
    if len(path) > 1:
        _insert(below, path[1:], value)
    else:
        below["value"] = json.loads(value.value)


def _micros(entry: CoveredRow, shown: Mapping[str, Json]) -> int:
    """The record's time in microseconds since the epoch."""
    try:
        moment = datetime.fromisoformat(str(shown.get("time")))
        return (moment - _EPOCH) // timedelta(microseconds=1)
    except (TypeError, ValueError):
        raise ChainFault(entry.row.seq, "record", "the record has no time") from None


def _flat(name: str, value: Json) -> Iterator[tuple[str, str]]:
    """*value* as pairs of a dotted name and a text."""
    if isinstance(value, Mapping):
        if PERSONAL in value and "value" in value:
            yield from _flat(name, value["value"])
            return
        for key in sorted(value):
            yield from _flat(f"{name}.{key}", value[key])
    elif isinstance(value, str):
        yield name, value
    elif isinstance(value, (list, tuple)):
        yield name, ",".join(each if isinstance(each, str) else _word(each) for each in value)
    else:
        yield name, _word(value)


def _word(value: Json) -> str:
    """A value that is not a text, as JSON has it."""
    return as_json({"v": value})[5:-1]


def _key(name: str) -> str:
    """A key of the dictionary, or ``svc`` and the name in camel case."""
    if name in _KEYS:
        return _KEYS[name]
    return "svc" + "".join(part[:1].upper() + part[1:] for part in re.split(r"[^A-Za-z0-9]+", name))


def _in_header(value: object) -> str:
    text = str(value).replace("\\", "\\\\").replace("|", "\\|")
    return _UNFIT.sub(_visible, text)


def _value(text: str) -> str:
    text = text.replace("\\", "\\\\").replace("=", "\\=")
    return _UNFIT.sub(_visible, text.replace("\n", "\\n").replace("\r", "\\r"))


def _visible(found: re.Match[str]) -> str:
    r"""``\uNNNN`` with its backslash escaped, so that a reader of CEF shows it like that."""
    code = ord(found[0])
    return f"\\\\u{code:04x}" if code < 0x10000 else f"\\\\U{code:08x}"
