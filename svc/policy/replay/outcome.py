"""What a replay found: changes, what could not be decided, and what was exercised.

Memory is bounded whatever the log holds: changes are counted by person,
resource, action and policies, to a limit; a digest covers each one beyond it.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import Any

from attrs import define, field, frozen

MOST_GROUPS = 5_000
MOST_POLICIES = 16
"""So many policies are named on either side of a change."""

ERASED = "facts_erased"
NO_ENTITIES = "entities_not_recorded"
NOT_ASKABLE = "not_in_vocabulary"
UNDECIDABLE = (ERASED, NO_ENTITIES, NOT_ASKABLE)


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
class ReplayTally:
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
    _digest: Any = field(factory=hashlib.sha256)

    def cannot_decide(self, seq: int, why: str) -> None:
        """A request that nothing true can be said of."""
        self.undecidable[why] += 1
        self._digest.update(f"{seq} {why}\n".encode())

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
        self.changed += 1
        self.directions[f"{before.decision}_to_{after.decision}"] += 1
        key = ChangeKey(
            person=person,
            resource=resource,
            action=action,
            before=Verdicted(before.decision, before.policies[:MOST_POLICIES]),
            after=Verdicted(after.decision, after.policies[:MOST_POLICIES]),
        )
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
        }


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
