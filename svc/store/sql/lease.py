"""The lease of the write leader.  The invariant: each change compares what it replaces."""

from __future__ import annotations

from attrs import evolve, frozen
from zope.interface import implementer

from svc.errors import LeaseLost
from svc.interfaces.facets import ILease
from svc.model.cluster.lease import LeaderLease, Member
from svc.store.sql.columns import RowColumns
from svc.store.sql.statements import Statements

_LEASE = RowColumns(LeaderLease, "lease", "epoch, owner, instance, beats")
_MEMBERS = RowColumns(Member, "authority_members", "owner, node_id, instance, beats")


@implementer(ILease)
@frozen
class LeaseRow:
    """See :class:`ILease`."""

    _db: Statements

    def held(self) -> LeaderLease:
        lease = _LEASE.one(self._db, "")
        assert lease is not None, "a migration puts the row there and nothing removes it"
        return lease

    def take(self, owner: str, instance: str, seen: LeaderLease) -> LeaderLease | None:
        return self._replace(seen, LeaderLease(seen.epoch + 1, owner, instance))

    def beat(self, mine: LeaderLease) -> LeaderLease | None:
        return self._replace(mine, evolve(mine, beats=mine.beats + 1))

    def leave(self, mine: LeaderLease) -> bool:
        return self._replace(mine, LeaderLease(mine.epoch)) is not None

    def require(self, mine: LeaderLease) -> None:
        held = self.held()
        if held.is_free or held.epoch != mine.epoch or not held.is_of(mine.owner, mine.instance):
            raise LeaseLost(held.owner)

    def _replace(self, old: LeaderLease, new: LeaderLease) -> LeaderLease | None:
        changed = self._db.change(
            "UPDATE lease SET epoch = ?, owner = ?, instance = ?, beats = ?"
            " WHERE epoch = ? AND owner = ? AND instance = ? AND beats = ?",
            new.epoch,
            new.owner,
            new.instance,
            new.beats,
            old.epoch,
            old.owner,
            old.instance,
            old.beats,
        )
        return new if changed else None

    def members(self) -> list[Member]:
        return list(_MEMBERS.all(self._db, "ORDER BY owner"))

    def appear(self, member: Member, seen: Member | None) -> bool:
        values = member.node_id, member.instance, member.beats
        if seen is None:
            changed = self._db.change(
                "INSERT INTO authority_members (owner, node_id, instance, beats)"
                " VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
                member.owner,
                *values,
            )
        else:
            changed = self._db.change(
                "UPDATE authority_members SET node_id = ?, instance = ?, beats = ?"
                " WHERE owner = ? AND instance = ? AND beats = ?",
                *values,
                member.owner,
                seen.instance,
                seen.beats,
            )
        return changed == 1
