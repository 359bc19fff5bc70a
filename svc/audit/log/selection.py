"""Selects the records that a person asks to see.  Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches

from attrs import frozen

from svc.errors import Malformed, SvcError
from svc.model.audit.events import BY_NAME, SESSION_ABANDONED, SESSION_END
from svc.model.audit.record import rfc3339
from svc.model.canonical import Json

_AGO = re.compile(r"([0-9]{1,9})([smhdw])\Z")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_SLACK_SECS = 3600.0
"""A clock that was set back by no more than this makes no record be passed over."""


_ENDS = frozenset({SESSION_END.name, SESSION_ABANDONED.name})


@frozen
class Selection:
    """What a record has to be; what is empty or None asks for nothing.

    Attributes:
        persons: Ids: records of what these people did, and of what was done about them.
        resource: Its id.
        event: A name (``session.start``), or the beginning of names up to a dot (``session``).
        decision: Of a decision: ``allow``, ``deny``, or its id.
        session: A session's id, or the beginning of it.
        since: Unix seconds, inclusive.
        until: Unix seconds, exclusive.
    """

    persons: frozenset[str] | None = None
    resource: str | None = None
    event: str | None = None
    decision: str | None = None
    session: str | None = None
    since: float | None = None
    until: float | None = None

    def wants(self, record: Mapping[str, Json], opened_by: Callable[[str], str]) -> bool:
        """Whether this is one of them.

        Args:
            record: Any.
            opened_by: The person whose session a decision let open, by the decision's id.
        """
        time = str(record.get("time", ""))
        return (
            (self.since is None or time >= rfc3339(self.since))
            and (self.until is None or time < rfc3339(self.until))
            and self.resource in (None, record.get("resource_id"))
            and self.decision in (None, record.get("decision"), record.get("decision_id"))
            and str(record.get("session_uid") or "").startswith(self.session or "")
            and _is_event(self.event, str(record.get("event", "")))
            and (self.persons is None or bool(self.persons & set(_persons(record, opened_by))))
        )

    def is_past(self, record: Mapping[str, Json]) -> bool:
        """Whether no record before this one can be wanted.

        A record was made before it was committed, so all that were committed before one that
        the leader made then, are of no later time.  Those of a spool may come late.
        """
        if self.since is None or record.get("spool") is not None:
            return False
        return str(record.get("time", "")) < rfc3339(max(0.0, self.since - _SLACK_SECS))


def _is_event(wanted: str | None, event: str) -> bool:
    return wanted is None or event == wanted or event.startswith(f"{wanted.rstrip('.')}.")


def _persons(record: Mapping[str, Json], opened_by: Callable[[str], str]) -> list[str]:
    actor, details = record.get("actor"), record.get("details")
    found: list[str] = []
    if isinstance(actor, Mapping) and actor.get("kind") in ("person", "agent"):
        found.append(str(actor.get("id")))
    if isinstance(details, Mapping) and isinstance(details.get("person_id"), str):
        found.append(str(details["person_id"]))
    if record.get("event") in _ENDS:
        # The node's that tells of it, which is its actor, but it is about its person.
        found.append(opened_by(str(record.get("decision_id") or "")))
    return found


def check_event(
    word: str, known: Iterable[str] = tuple(BY_NAME), kinds: Iterable[str] = ()
) -> None:
    """Return if there is an event with this name, or a group of events with this prefix.

    Args:
        kinds: Resource kinds; what their own events are called is not asked of them, since
            the log is shown without them too.

    Raises:
        Malformed: there is none; naming the nearest.
    """
    if word.partition(".")[0] in kinds:
        return
    names = set(known)
    groups = {name.rsplit(".", n)[0] for name in names for n in range(1, name.count(".") + 1)}
    if word.rstrip(".") in names | groups:
        return
    near = get_close_matches(word, sorted(names | groups), 1, 0.0)
    raise Malformed(f"there is no such event or group; the nearest is {near[0]}")


def moment_of(text: str, now: float) -> float:
    """Unix seconds of a time as people type it: ``2h`` ago, or ISO 8601, in UTC if nothing is said.

    Raises:
        Malformed: it is neither.
    """
    ago = _AGO.match(text)
    if ago is not None:
        return max(0.0, now - int(ago[1]) * _SECONDS[ago[2]])
    try:
        found = datetime.fromisoformat(text)
        seconds = (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
        rfc3339(seconds)
    except (ValueError, OverflowError, SvcError):
        raise Malformed(
            "must be a time ago (90s, 30m, 2h, 7d) or a date (2026-11-23, 2026-11-23T14:30)"
        ) from None
    return seconds
