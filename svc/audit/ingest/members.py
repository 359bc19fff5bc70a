"""What rows are held against, made once: their members, and the fields of each event."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from attrs import frozen

from svc.audit.log.kind_events import kind_of_event
from svc.audit.log.record import MEMBERS
from svc.model.audit.events import (
    AUTHORITY_DOUBT,
    AUTHORITY_STANDBY,
    REFUSALS_SUMMARY,
    REQUEST_BATCH,
    ROLE_START,
    ROLE_STOP,
    SPOOL_CLOSE,
    SPOOL_OPEN,
)
from svc.model.audit.record import Event, Field, Shape

OF_A_SPOOL = frozenset((SPOOL_OPEN.name, SPOOL_CLOSE.name))
OWN = frozenset(
    event.name
    for event in (
        SPOOL_OPEN,
        SPOOL_CLOSE,
        ROLE_START,
        ROLE_STOP,
        AUTHORITY_STANDBY,
        AUTHORITY_DOUBT,
        REFUSALS_SUMMARY,
        REQUEST_BATCH,
    )
)
"""What an origin says of itself alone."""

NEEDED = frozenset(
    ["actor", "class", "code", "event", "event_id", "key_id", "origin", "severity", "spool", "time"]
)
KNOWN = NEEDED | set(MEMBERS) | {"details", "batch"}


@frozen
class EventForm:
    """What rows of an event are held against; made once.

    Attributes:
        claimed: Its code, class and severity.
        fields: By name.
        kind: The one that declares it; empty for one of ours.
        is_own: Whether an origin says it of itself alone.
    """

    event: Event
    claimed: tuple[str, str, str]
    fields: Mapping[str, Field]
    kind: str
    is_own: bool

    @classmethod
    def of(cls, event: Event) -> EventForm:
        """The form of an event."""
        return cls(
            event=event,
            claimed=(event.code, event.event_class.value, event.severity.value),
            fields={each.name: each for each in event.fields},
            kind=kind_of_event(event),
            is_own=event.name in OWN,
        )


@frozen
class RecordMembers:
    """Which members of a record have to be texts, and which counts."""

    texts: tuple[str, ...]
    counts: tuple[str, ...]


@lru_cache(maxsize=256)
def members_of(names: tuple[str, ...]) -> RecordMembers | None:
    """The members of a record that is so made; None where they are not those of a record."""
    if not NEEDED <= set(names) <= KNOWN:
        return None
    known = [(name, MEMBERS[name] is Shape.TEXT) for name in names if name in MEMBERS]
    texts = tuple(name for name, is_text in known if is_text)
    return RecordMembers(texts, tuple(name for name, is_text in known if not is_text))
