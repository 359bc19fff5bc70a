"""What a replay covers: which requests the log had, on whose word, and what was known of them."""

from __future__ import annotations

from collections import Counter

from attrs import define, field, frozen

MOST_NAMES = 200_000
"""So many people and resources are told apart."""


@frozen
class Covered:
    """What counts of a request; the same for all that ask the same question.

    Attributes:
        told_by: Whose word it is.
        entities: Which slice of entities it is decided over.
    """

    told_by: str
    entities: str
    version: int
    action: str
    person: str
    resource: str


@define
class ReplayCoverage:
    """What the log had to be decided, and on whose word."""

    requests: int = 0
    told_by: Counter[str] = field(factory=Counter)
    entities: Counter[str] = field(factory=Counter)
    versions: Counter[int] = field(factory=Counter)
    actions: Counter[str] = field(factory=Counter)
    resources: dict[str, None] = field(factory=dict)
    people: dict[str, None] = field(factory=dict)

    def count(self, covered: Covered, times: int) -> None:
        """So many more requests that ask the same."""
        self.requests += times
        self.told_by[covered.told_by] += times
        self.entities[covered.entities] += times
        self.versions[covered.version] += times
        self.actions[covered.action] += times
        for names, name in ((self.resources, covered.resource), (self.people, covered.person)):
            if len(names) < MOST_NAMES:
                names[name] = None

    def add(self, other: ReplayCoverage) -> None:
        """What came after it."""
        self.requests += other.requests
        for counts, more in (
            (self.told_by, other.told_by),
            (self.entities, other.entities),
            (self.actions, other.actions),
        ):
            counts.update(more)
        self.versions.update(other.versions)
        for names, later in ((self.resources, other.resources), (self.people, other.people)):
            for name in later:
                if len(names) < MOST_NAMES:
                    names[name] = None
