"""The lease of the write leader, and how another instance sees that it has ended.

Of several Authorities on one store the one that holds the lease writes.  A
lease carries an *epoch*, which only grows: a write made under an older epoch
is refused inside its own transaction (a fencing token, as in M. Kleppmann,
"How to do distributed locking", 2016).  Its end is judged without comparing
clocks of two machines: the holder counts *beats* in the store, and an
observer that has seen the same beat for the whole term, by its own monotonic
clock, may take the next epoch (as in J. Adams, DynamoDB Lock Client, 2017).
Pure values; ``svc.authority.ha.lease`` acts on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from attrs import frozen


@frozen
class LeaderLease:
    """The lease as it is stored.

    Attributes:
        epoch: Counts holders from 1; 0 before the first.
        owner: The holder's name among the Authorities; empty once it was given up.
        instance: The holder's process: it changes with each start.
        beats: Counts the holder's signs of life within the epoch.
    """

    epoch: int = 0
    owner: str = ""
    instance: str = ""
    beats: int = 0

    @property
    def is_free(self) -> bool:
        """Whether nobody holds it."""
        return not self.owner

    def is_of(self, owner: str, instance: str) -> bool:
        """Whether that very process holds it."""
        return (self.owner, self.instance) == (owner, instance)


@frozen
class Watch:
    """What one observer has seen of the lease, and since when.

    Attributes:
        lease: As last seen; None before the first look.
        since: When exactly this was seen first, in seconds of the observer's
            monotonic clock.
    """

    lease: LeaderLease | None = None
    since: float = 0.0

    def saw(self, lease: LeaderLease, at: float) -> Watch:
        """The watch after another look at the time *at*."""
        return self if lease == self.lease else Watch(lease, at)

    def may_take(self, at: float, term: float) -> bool:
        """Whether the lease is free, or its holder has been silent for *term* seconds."""
        if self.lease is None:
            return False
        return self.lease.is_free or at - self.since >= term


@frozen
class Member:
    """One Authority on a store, as it describes itself.

    Attributes:
        owner: Its name, under which it holds the lease; no two have the same.
        node_id: Of its certificate.
        instance: Its process: it changes with each start.
        beats: Counts its signs of life.
    """

    owner: str
    node_id: str
    instance: str
    beats: int = 0


@frozen
class MembershipView:
    """What one observer has seen of the members, and since when each has been as it is.

    As with the lease, no two machines' clocks are compared: who lives is seen to count.
    """

    seen: Mapping[str, tuple[Member, float]] = MappingProxyType({})

    def saw(self, members: Iterable[Member], at: float) -> MembershipView:
        """The roll after another look at the time *at*."""
        now: dict[str, tuple[Member, float]] = {}
        for member in members:
            before = self.seen.get(member.owner)
            now[member.owner] = before if before and before[0] == member else (member, at)
        return MembershipView(now)

    def living(self, at: float, silence: float) -> tuple[Member, ...]:
        """Those that were not silent for so many seconds, by name."""
        found = [member for member, since in self.seen.values() if at - since < silence]
        return tuple(sorted(found, key=lambda member: member.owner))

    def may_replace(self, member: Member, at: float, silence: float) -> bool:
        """Whether the process behind *member*'s row has been silent for so many seconds."""
        before = self.seen.get(member.owner)
        return before is not None and before[0] == member and at - before[1] >= silence
