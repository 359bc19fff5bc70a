"""Reads what a Proxy's record says of a session, to be held against our own row of it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from svc.audit.log.forms import mapping, text
from svc.audit.log.kind_events import kind_of_event
from svc.errors import Malformed
from svc.model.audit.events import REQUEST_DECISION
from svc.model.audit.record import Event
from svc.model.canonical import Json
from svc.model.session.ranges import MAX_RANGE, RequestRange
from svc.model.session.recorded import RecordedRequest

_TAGS = re.compile(r"[0-9a-f]{32}\Z")
_LARGEST = (1 << 53) - 1


def about(
    record: Mapping[str, Json], details: Mapping[str, Json], event: Event
) -> RecordedRequest | None:
    """The session, and which of its requests, as the record says."""
    if event is not REQUEST_DECISION and not kind_of_event(event):
        return None
    range_ = None
    if event is REQUEST_DECISION and "session_n" in details:
        range_ = _range(details)
    return RecordedRequest(
        session_uid=str(record.get("session_uid", "")),
        person_id=str(mapping(record["actor"]).get("id")),
        resource_id=str(record.get("resource_id", "")),
        resource_kind=str(record.get("resource_kind", "")),
        range_=range_,
        allowed=record.get("decision") == "allow",
    )


def _range(details: Mapping[str, Json]) -> RequestRange:
    n, offset, size = (details.get(name) for name in ("session_n", "range_offset", "range_size"))
    tags = text(details.get("range_tags"))
    for number, most in ((n, _LARGEST), (offset, _LARGEST), (size, MAX_RANGE)):
        if not isinstance(number, int) or not 0 <= number <= most:
            raise Malformed("audit row: the range of its request is malformed")
    if _TAGS.match(tags) is None:
        raise Malformed("audit row: the range of its request is malformed")
    assert isinstance(n, int)
    assert isinstance(offset, int)
    assert isinstance(size, int)
    return RequestRange(n=n, offset=offset, size=size, tags=bytes.fromhex(tags))
