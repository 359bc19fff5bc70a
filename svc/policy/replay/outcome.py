"""What a replay found: changes, what could not be decided, and what was exercised.

The processes that decide tell of each change, in the order of their requests; only the
process that gave them the requests adds up what several of them found.  Memory is bounded
whatever the log holds: changes are counted by person, resource, action and policies, to a
limit; a digest covers each one beyond it.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from attrs import define, field, frozen

from svc.errors import Malformed

MOST_GROUPS = 5_000
MOST_POLICIES = 16
"""So many policies are named on either side of a change."""

ERASED = "facts_erased"
NO_ENTITIES = "entities_not_recorded"
NOT_ASKABLE = "not_in_vocabulary"
UNDECIDABLE = (ERASED, NO_ENTITIES, NOT_ASKABLE)

MOST_EVENTS = 256
"""So many changes and undecidable requests are told at once."""

MOST_SILENT = 1000
"""So many requests are decided before a sign of life."""


@frozen
class Verdicted:
    """A decision and the policies that determined it."""

    decision: str
    policies: tuple[str, ...]


@frozen
class ChangeKey:
    """What the changes have in common that are counted together."""

    person: str
    resource: str
    action: str
    before: Verdicted
    after: Verdicted


@define
class ChangeGroup:
    """How many changes there are of one sort, and the records of the first and the last."""

    count: int = 0
    first: int = 0
    last: int = 0


@define
class ReplayFindings:
    """What a process that decides has found since it last told of it.

    Attributes:
        determining: The candidate's policies that decided something, from the first request on.
    """

    decided: int = 0
    other_policies: int = 0
    events: list[list[Any]] = field(factory=list)
    determining: set[str] = field(factory=set)

    @property
    def due(self) -> bool:
        """Whether it has to be told now."""
        return len(self.events) >= MOST_EVENTS or self.decided >= MOST_SILENT

    def cannot_decide(self, seq: int, why: str) -> None:
        """A request that nothing true can be said of."""
        self.events.append([seq, why])

    def compare(
        self,
        seq: int,
        person: str,
        resource: str,
        action: str,
        *,
        before: Verdicted,
        after: Verdicted,
    ) -> None:
        """A request that was decided again."""
        self.decided += 1
        self.determining.update(after.policies)
        if before.decision == after.decision:
            self.other_policies += before.policies != after.policies
            return
        sides = (
            [before.decision, before.policies[:MOST_POLICIES]],
            [after.decision, after.policies[:MOST_POLICIES]],
        )
        self.events.append([seq, person, resource, action, *sides])

    def told(self, *, ends: bool) -> dict[str, Any]:
        """What was found, as JSON values; it is not told again.

        Args:
            ends: Whether this is all of a turn.
        """
        form = {
            "decided": self.decided,
            "other_policies": self.other_policies,
            "events": self.events,
            "ends": ends,
        }
        self.decided = self.other_policies = 0
        self.events = []
        return form


@define
class ReplayTotals:
    """Counts what comes out; see :meth:`form` for what it tells."""

    most: int = MOST_GROUPS
    decided: int = 0
    changed: int = 0
    other_policies: int = 0
    beyond: int = 0
    undecidable: Counter[str] = field(factory=Counter)
    directions: Counter[str] = field(factory=Counter)
    groups: dict[ChangeKey, ChangeGroup] = field(factory=dict)
    determining: set[str] = field(factory=set)
    named: set[str] = field(factory=set)
    _digest: Any = field(factory=hashlib.sha256)

    def add(self, told: Mapping[str, Any]) -> None:
        """What a process found of the requests that follow those of before.

        Raises:
            Malformed: it is not what :meth:`ReplayFindings.told` gives.
        """
        try:
            self.decided += int(told["decided"])
            self.other_policies += int(told["other_policies"])
            for event in told["events"]:
                if len(event) == 2:
                    self._cannot_decide(int(event[0]), str(event[1]))
                else:
                    self._change(int(event[0]), _key(*event[1:]))
        except (KeyError, TypeError, ValueError, IndexError):
            raise Malformed("policy replay: an answer of its process is malformed") from None

    def end(self, told: Mapping[str, Any]) -> None:
        """What a process says at its end of the candidate's policies.  Raises Malformed."""
        try:
            self.named.update(map(str, told["named"]))
            self.determining.update(map(str, told["determining"]))
        except (KeyError, TypeError):
            raise Malformed("policy replay: an answer of its process is malformed") from None

    def _cannot_decide(self, seq: int, why: str) -> None:
        self.undecidable[why] += 1
        self._digest.update(f"{seq} {why}\n".encode())

    def _change(self, seq: int, key: ChangeKey) -> None:
        self.changed += 1
        self.directions[f"{key.before.decision}_to_{key.after.decision}"] += 1
        self._digest.update(f"{seq} {json.dumps(_key_form(key))}\n".encode())
        group = self.groups.get(key)
        if group is None:
            if len(self.groups) >= self.most:
                self.beyond += 1
                return
            group = self.groups[key] = ChangeGroup(first=seq)
        group.count += 1
        group.last = seq

    def form(self) -> dict[str, Any]:
        """Everything, as JSON values."""
        groups = sorted(self.groups.items(), key=lambda each: (-each[1].count, each[1].first))
        return {
            "decided": self.decided,
            "changed": self.changed,
            "other_policies": self.other_policies,
            "beyond": self.beyond,
            "undecidable": {why: self.undecidable[why] for why in UNDECIDABLE},
            "directions": dict(sorted(self.directions.items())),
            "changes_digest": self._digest.hexdigest(),
            "changes": [
                {**_key_form(key), "count": one.count, "first_seq": one.first, "last_seq": one.last}
                for key, one in groups
            ],
            "determining": sorted(self.determining),
            "unused": sorted(self.named - self.determining),
        }


def _key(person: str, resource: str, action: str, before: Any, after: Any) -> ChangeKey:
    (was, by), (would_be, by_now) = before, after
    return ChangeKey(
        person=str(person),
        resource=str(resource),
        action=str(action),
        before=Verdicted(str(was), tuple(map(str, by))),
        after=Verdicted(str(would_be), tuple(map(str, by_now))),
    )


def _key_form(key: ChangeKey) -> dict[str, Any]:
    return {
        "person": key.person,
        "resource": key.resource,
        "action": key.action,
        "decision_before": key.before.decision,
        "policies_before": list(key.before.policies),
        "decision_after": key.after.decision,
        "policies_after": list(key.after.policies),
    }
