"""Groups and who is in them, as operators change and list them.

A membership is part of the person's row, so a change of members signs the rows of the people.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attrs import define, evolve

from svc.authority.registry.rights import RightsCheck
from svc.authority.registry.words import checked_name, known_person, optional_note
from svc.authority.state.tables import GROUPS, PERSONS
from svc.authority.state.writer import StateWriter
from svc.errors import Fault, Malformed, SvcError
from svc.interfaces.store import ITransaction
from svc.model.audit.events import GROUP_ADD, GROUP_JOIN, GROUP_LEAVE, GROUP_REMOVE
from svc.model.audit.record import Actor
from svc.model.audit.state import StateEntry, group_entry
from svc.model.cluster.person import Person, PersonState
from svc.proto.gate.v1 import admin_pb2 as pb

MOST_MEMBERS = 1000
"""People that one command adds to a group or takes out of it."""


@define
class GroupAdmin:
    """Adds, lists and removes groups, and changes their members."""

    writer: StateWriter
    rights: RightsCheck

    async def add_group(self, request: pb.AddGroupRequest, actor: Actor) -> pb.AddGroupResponse:
        """Add a group; adding one that is there changes nothing."""
        name = checked_name(request.name, "group")

        def add(tx: ITransaction) -> bool:
            return self.ensure(tx, name, actor)

        added = await self.writer.change("add a group", add)
        return pb.AddGroupResponse(added=added)

    async def list_groups(
        self, request: pb.ListGroupsRequest, actor: Actor
    ) -> pb.ListGroupsResponse:
        """Every group, with the number of its members who were not removed."""

        def look(tx: ITransaction) -> tuple[Sequence[str], Sequence[Person]]:
            return tx.people.groups(), tx.people.all()

        names, people = await self.writer.read("list groups", look)
        counts = dict.fromkeys(names, 0)
        for one in people:
            for group in one.groups if one.state is not PersonState.REVOKED else ():
                counts[group] = counts.get(group, 0) + 1
        rows = [pb.GroupRow(name=name, members=count) for name, count in counts.items()]
        return pb.ListGroupsResponse(groups=rows)

    async def members(
        self, request: pb.GroupMembersRequest, actor: Actor
    ) -> pb.GroupMembersResponse:
        """The people of one group."""

        def look(tx: ITransaction) -> list[Person]:
            self.require(tx, (request.group,))
            return [one for one in tx.people.all() if request.group in one.groups]

        found = await self.writer.read("members of a group", look)
        return pb.GroupMembersResponse(persons=map(person_row, found))

    async def change_members(
        self, request: pb.ChangeMembersRequest, actor: Actor
    ) -> pb.ChangeMembersResponse:
        """Add people to one group and take others out of it: all of them, or none.

        Who is in the group already, or is not in it, stays so.
        """
        note = optional_note(request.note)
        if len(request.add) + len(request.remove) > MOST_MEMBERS:
            raise Malformed(f"members: at most {MOST_MEMBERS} in one command")

        def change(tx: ITransaction) -> tuple[list[Person], list[Person]]:
            self.require(tx, (request.group,))
            rows = self.writer.rows(tx)
            coming = _unique(known_person(rows, word) for word in request.add)
            leaving = _unique(known_person(rows, word) for word in request.remove)
            for one in coming:
                if one.state is PersonState.REVOKED:
                    raise SvcError(
                        f"person {one.name}: was removed",
                        reason="revoked_person",
                        fault=Fault.PRECONDITION,
                    )
                if one.id in {each.id for each in leaving}:
                    raise Malformed(f"person {one.name}: is to be added and taken out at once")
            coming = [one for one in coming if request.group not in one.groups]
            leaving = [one for one in leaving if request.group in one.groups]
            self.rights.require(tx, actor, [in_groups(one, (request.group,)) for one in coming])
            self.rights.require_leaving(
                tx, actor, [out_of_group(one, request.group) for one in leaving]
            )
            for one in coming:
                self.join(tx, one, (request.group,), actor, note)
            for one in leaving:
                self.leave(tx, one, (request.group,), actor, note)
            return coming, leaving

        added, removed = await self.writer.change("change the members of a group", change)
        return pb.ChangeMembersResponse(
            added=map(person_row, added), removed=map(person_row, removed)
        )

    async def remove_group(
        self, request: pb.RemoveGroupRequest, actor: Actor
    ) -> pb.RemoveGroupResponse:
        """Remove a group; one with members only where the request says so."""
        note, name = optional_note(request.note), request.group

        def remove(tx: ITransaction) -> int:
            self.require(tx, (name,))
            members = [one for one in tx.people.all() if name in one.groups]
            if members and not request.with_members:
                raise SvcError(
                    f"group {name}: has {len(members)} member(s); take them out, or give "
                    "--with-members",
                    reason="group_not_empty",
                    fault=Fault.PRECONDITION,
                )
            if len(members) > MOST_MEMBERS:
                raise Malformed(
                    f"group {name}: has more than {MOST_MEMBERS} members; first take out as many "
                    "with `groups members`"
                )
            rows = self.writer.rows(tx)
            for one in members:
                rows.require(PERSONS.entry_of(one))
            self.rights.require_leaving(tx, actor, [out_of_group(one, name) for one in members])
            for one in members:
                self.leave(tx, one, (name,), actor)
            tx.people_changes.remove_group(name)
            self.writer.append(
                tx,
                GROUP_REMOVE,
                actor,
                details={"group": name, **note},
                state=[GROUPS.now(tx, name)],
            )
            return len(members)

        left = await self.writer.change("remove a group", remove)
        return pb.RemoveGroupResponse(left=left)

    def require(
        self, tx: ITransaction, groups: tuple[str, ...], *, create: bool | None = None
    ) -> None:
        """Return if each of the groups is there, or may be made; None: the command makes none.

        Raises:
            SvcError: ``unknown_group``.
        """
        rows = self.writer.rows(tx)
        absent = [group for group in groups if not rows.group(group)]
        if absent and not create:
            more = ", or give --create-groups" if create is False else ""
            listed = "see `svc authority groups list`, or " if create is None else ""
            raise SvcError(
                f"group {', '.join(absent)}: does not exist; {listed}create it with `svc authority "
                f"groups add {absent[0]}`{more}",
                reason="unknown_group",
                fault=Fault.NOT_FOUND,
            )

    def ensure(self, tx: ITransaction, name: str, actor: Actor) -> bool:
        """Add a group that is not there; whether it was added."""
        if self.writer.rows(tx).group(name):
            return False
        tx.people.add_group(name, self.writer.now())
        state = [group_entry(name)]
        self.writer.append(tx, GROUP_ADD, actor, details={"group": name}, state=state)
        return True

    def join(
        self,
        tx: ITransaction,
        known: Person,
        groups: tuple[str, ...],
        actor: Actor,
        note: dict[str, str] | None = None,
    ) -> None:
        """Add a person to those of the groups that they are not in, and make what is not there."""
        joined = tuple(group for group in groups if group not in known.groups)
        if joined:
            for group in joined:
                self.ensure(tx, group, actor)
            tx.people.set_groups(known.id, {*known.groups, *joined})
            state = [PERSONS.now(tx, known.id)]  # the first record has it for all of them
            for group in joined:
                self.record_join(tx, known, group, actor, state, note)
                state = []

    def record_join(
        self,
        tx: ITransaction,
        known: Person,
        group: str,
        actor: Actor,
        state: Sequence[StateEntry] = (),
        note: dict[str, str] | None = None,
    ) -> None:
        """One membership that began."""
        details = {"group": group, "person_id": known.id, **(note or {})}
        self.writer.append(tx, GROUP_JOIN, actor, details=details, state=state)

    def leave(
        self,
        tx: ITransaction,
        known: Person,
        groups: tuple[str, ...],
        actor: Actor,
        note: dict[str, str] | None = None,
    ) -> None:
        """Take a person out of groups that they are in."""
        tx.people.set_groups(known.id, set(known.groups) - set(groups))
        state = [PERSONS.now(tx, known.id)]
        for group in groups:
            details = {"group": group, "person_id": known.id, **(note or {})}
            self.writer.append(tx, GROUP_LEAVE, actor, details=details, state=state)
            state = []


def in_groups(known: Person, groups: Iterable[str]) -> Person:
    """The person, in these groups as well."""
    return evolve(known, groups=tuple(sorted({*known.groups, *groups})))


def out_of_group(known: Person, group: str) -> Person:
    """The person, not in this group."""
    return evolve(known, groups=tuple(one for one in known.groups if one != group))


def person_row(one: Person) -> pb.PersonRow:
    """A person as commands show them; a name that was forgotten is empty."""
    state = "removed" if one.state is PersonState.REVOKED else one.state.value
    return pb.PersonRow(id=one.id, name=one.known_name, state=state, groups=one.groups)


def _unique(people: Iterable[Person]) -> list[Person]:
    return list({one.id: one for one in people}.values())
