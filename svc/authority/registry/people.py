"""Persons and their groups, as operators change and list them.

Every change is one transaction with its signed record; then the facts are read again, and what
follows from the change (revocations, policy) is published before the operator has the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import define

from svc.authority.registry.tokens import TokenAdmin
from svc.authority.registry.words import already_exists, checked_name, optional_note
from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.recorder import Recorder
from svc.authority.state.tables import PERSONS
from svc.errors import Fault, Malformed, SvcError
from svc.interfaces.store import IStore, ITransaction
from svc.model.audit.events import (
    GROUP_ADD,
    GROUP_JOIN,
    PERSON_ADD,
    PERSON_DISABLE,
    PERSON_ENABLE,
)
from svc.model.audit.record import Actor, Event
from svc.model.audit.state import StateEntry, group_entry
from svc.model.cluster.node import TokenRecord, TokenRole
from svc.model.cluster.person import DISABLED_PERSON, Person, PersonState
from svc.model.ids import Entropy, is_opaque_id, person_id
from svc.proto.gate.v1 import admin_pb2 as pb

SALT_BYTES = 16


@define
class PeopleAdmin:
    """Adds, lists, disables and enables people, and keeps their groups."""

    state_cache: ClusterStateCache
    store: IStore
    recorder: Recorder
    now: Callable[[], float]
    entropy: Entropy
    tokens: TokenAdmin

    async def add_person(self, request: pb.AddPersonRequest, actor: Actor) -> pb.TokenResponse:
        """Add a person, or a new token for one that is there, and give the token once.

        Groups are joined by one who is there only where the request says so, and are made only
        where it says so: neither may follow from a name that was mistyped or used before.
        """
        name = checked_name(request.name, "name")
        if is_opaque_id(name):
            raise Malformed("name: has the form of an id; choose another")
        groups = tuple(sorted({checked_name(group, "group") for group in request.groups}))
        token = self.tokens.new()

        def add(tx: ITransaction) -> tuple[Person, TokenRecord]:
            known = self.recorder.rows(tx).person_named(name)
            self._need_groups(tx, groups, create=request.create_groups)
            if known is None:
                known = self._add_person(tx, name, groups, actor)
            elif known.state is not PersonState.ACTIVE:
                raise _inactive(known)
            else:
                _check_joining(known, groups, join=request.join_groups)
                self._join(tx, known, groups, actor)
            row = self.tokens.record(token, TokenRole.PERSON, known.id, request.ttl_secs)
            self.tokens.add(tx, row, actor)
            return known, row

        known, row = await self.store.run("add a person", add)
        await self.state_cache.refresh()
        return self.tokens.response(token, row, known.id)

    async def list_persons(
        self, request: pb.ListPersonsRequest, actor: Actor
    ) -> pb.ListPersonsResponse:
        """Every person with groups."""
        people = await self.store.read("list persons", lambda tx: tx.people.all())
        rows = [
            pb.PersonRow(id=one.id, name=one.name, state=one.state.value, groups=one.groups)
            for one in people
        ]
        return pb.ListPersonsResponse(persons=rows)

    async def disable(
        self, request: pb.ChangePersonRequest, actor: Actor
    ) -> pb.ChangePersonResponse:
        """Disable a person until they are enabled: their sessions end, and nothing else begins."""
        return await self._change(
            request, actor, PERSON_DISABLE, lambda tx, known: tx.people_changes.disable(known.id)
        )

    async def enable(
        self, request: pb.ChangePersonRequest, actor: Actor
    ) -> pb.ChangePersonResponse:
        """Accept a disabled person again."""
        return await self._change(
            request, actor, PERSON_ENABLE, lambda tx, known: tx.people_changes.enable(known.id)
        )

    async def _change(
        self,
        request: pb.ChangePersonRequest,
        actor: Actor,
        event: Event,
        change: Callable[[ITransaction, Person], bool],
    ) -> pb.ChangePersonResponse:
        """Change the state of a person who was not revoked."""
        note = optional_note(request.note)

        def write(tx: ITransaction) -> tuple[Person, bool, int]:
            known = self.known(tx, request.person)
            if known.state is PersonState.REVOKED:
                raise _inactive(known)
            changed = change(tx, known)
            if changed:
                self.recorder.append(
                    tx,
                    event,
                    actor,
                    details={"person_id": known.id, **note},
                    state=[PERSONS.now(tx, known.id)],
                )
            return known, changed, len(tx.sessions.open_of_person(known.id))

        known, changed, sessions = await self.store.run(event.name, write)
        await self.state_cache.refresh()
        return pb.ChangePersonResponse(
            id=known.id, name=known.name, changed=changed, open_sessions=sessions
        )

    def known(self, tx: ITransaction, word: str) -> Person:
        """The person of that id or name.

        Raises:
            NoSuchRow: there is none.
            StateUnsigned: the row is not what was signed for.
        """
        rows = self.recorder.rows(tx)
        found = rows.person(word) if is_opaque_id(word) else rows.person_named(word)
        if found is None:
            raise SvcError(
                f"person {word}: does not exist; list them: svc authority persons list",
                reason="unknown_person",
                fault=Fault.NOT_FOUND,
            )
        return found

    async def add_group(self, request: pb.AddGroupRequest, actor: Actor) -> pb.AddGroupResponse:
        """Add a group; adding one that is there changes nothing."""
        name = checked_name(request.name, "group")

        def add(tx: ITransaction) -> bool:
            return self._ensure_group(tx, name, actor)

        added = await self.store.run("add a group", add)
        await self.state_cache.refresh()
        return pb.AddGroupResponse(added=added)

    def _need_groups(self, tx: ITransaction, groups: tuple[str, ...], *, create: bool) -> None:
        rows = self.recorder.rows(tx)
        absent = [group for group in groups if not rows.group(group)]
        if absent and not create:
            raise SvcError(
                f"group {', '.join(absent)}: does not exist; create it with `svc authority "
                f"groups add {absent[0]}`, or give --create-groups",
                reason="unknown_group",
                fault=Fault.NOT_FOUND,
            )

    def _add_person(
        self, tx: ITransaction, name: str, groups: tuple[str, ...], actor: Actor
    ) -> Person:
        for group in groups:
            self._ensure_group(tx, group, actor)
        salt = self.entropy(SALT_BYTES)
        added = Person(person_id(self.entropy), name, groups=groups, salt=salt)
        tx.people.add(added, self.now())
        self.recorder.append(
            tx,
            PERSON_ADD,
            actor,
            details={"person_id": added.id, "name": added.name},
            state=[PERSONS.now(tx, added.id)],
        )
        for group in groups:
            self._record_join(tx, added, group, actor)
        return added

    def _join(self, tx: ITransaction, known: Person, groups: tuple[str, ...], actor: Actor) -> None:
        joined = tuple(group for group in groups if group not in known.groups)
        if joined:
            for group in joined:
                self._ensure_group(tx, group, actor)
            tx.people.set_groups(known.id, {*known.groups, *joined})
            state = [PERSONS.now(tx, known.id)]  # the first record has it for all of them
            for group in joined:
                self._record_join(tx, known, group, actor, state)
                state = []

    def _record_join(
        self,
        tx: ITransaction,
        known: Person,
        group: str,
        actor: Actor,
        state: Sequence[StateEntry] = (),
    ) -> None:
        details = {"group": group, "person_id": known.id}
        self.recorder.append(tx, GROUP_JOIN, actor, details=details, state=state)

    def _ensure_group(self, tx: ITransaction, name: str, actor: Actor) -> bool:
        if self.recorder.rows(tx).group(name):
            return False
        tx.people.add_group(name, self.now())
        state = [group_entry(name)]
        self.recorder.append(tx, GROUP_ADD, actor, details={"group": name}, state=state)
        return True


def _check_joining(known: Person, groups: tuple[str, ...], *, join: bool) -> None:
    joined = [group for group in groups if group not in known.groups]
    if joined and not join:
        raise already_exists(
            f"person {known.name}: already exists, in {', '.join(known.groups) or 'no group'}; "
            f"to add {known.name} to {', '.join(joined)} as well, give --join-groups"
        )


def _inactive(known: Person) -> SvcError:
    if known.state is PersonState.DISABLED:
        return SvcError(
            f"person {known.name}: is disabled; first run `svc authority persons enable "
            f"{known.name}`",
            reason=DISABLED_PERSON,
            fault=Fault.PRECONDITION,
        )
    return SvcError(
        f"person {known.name}: was revoked", reason="revoked_person", fault=Fault.PRECONDITION
    )
