"""Persons and their groups, as operators change and list them.

Every change is one transaction with its signed record; then the facts are read again, and what
follows from the change (revocations, policy) is published before the operator has the answer.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define

from svc.authority.registry.agents import revoke_agents_of
from svc.authority.registry.credentials import end_sign_ins, take_altered, withdraw_tokens
from svc.authority.registry.groups import GroupAdmin, in_groups, person_row
from svc.authority.registry.secrets import remove_secrets
from svc.authority.registry.tokens import TokenAdmin, token_row
from svc.authority.registry.words import (
    already_exists,
    checked_name,
    known_person,
    optional_note,
)
from svc.authority.state.tables import PERSONS
from svc.authority.state.writer import StateWriter
from svc.errors import Fault, Malformed, SvcError
from svc.interfaces.store import ITransaction
from svc.model.audit.events import PERSON_ADD, PERSON_DISABLE, PERSON_ENABLE, PERSON_REVOKE
from svc.model.audit.record import Actor, Event
from svc.model.cluster.node import TokenRecord, TokenRole
from svc.model.cluster.person import DISABLED_PERSON, IssuedCertificate, Person, PersonState
from svc.model.ids import is_agent_id, is_opaque_id, person_id
from svc.proto.gate.v1 import admin_pb2 as pb

SALT_BYTES = 16


@define
class PeopleAdmin:
    """Adds, lists, disables and enables people, and keeps their groups."""

    writer: StateWriter
    tokens: TokenAdmin
    groups: GroupAdmin

    async def add_person(self, request: pb.AddPersonRequest, actor: Actor) -> pb.TokenResponse:
        """Add a person, or a new token for one that is there, and give the token once.

        Groups are joined by one who is there only where the request says so, and are made only
        where it says so: neither may follow from a name that was mistyped or used before.
        """
        name = checked_name(request.name, "name")
        if is_opaque_id(name) or is_agent_id(name):
            raise Malformed("name: has the form of an id; choose another")
        groups = tuple(sorted({checked_name(group, "group") for group in request.groups}))
        token = self.tokens.new()

        def add(tx: ITransaction) -> tuple[Person, TokenRecord]:
            known = self.writer.rows(tx).person_named(name)
            self.groups.require(tx, groups, create=request.create_groups)
            if known is None:
                known = self.enter(tx, name, groups, actor)
            elif known.state is not PersonState.ACTIVE:
                raise _inactive(known)
            else:
                _check_joining(known, groups, join=request.join_groups)
                self.groups.rights.require(tx, actor, [in_groups(known, groups)])
                self.groups.join(tx, known, groups, actor)
            row = self.tokens.record(token, TokenRole.PERSON, known.id, request.ttl_secs)
            self.tokens.add(tx, row, actor)
            return known, row

        known, row = await self.writer.change("add a person", add)
        return self.tokens.response(token, row, known.id)

    async def list_persons(
        self, request: pb.ListPersonsRequest, actor: Actor
    ) -> pb.ListPersonsResponse:
        """Every person with groups."""
        people = await self.writer.read("list persons", lambda tx: tx.people.all())
        return pb.ListPersonsResponse(persons=map(person_row, people))

    async def show_person(
        self, request: pb.ShowPersonRequest, actor: Actor
    ) -> pb.ShowPersonResponse:
        """One person, with certificates and tokens that have not expired, and open sessions."""
        at = self.writer.now()

        def look(tx: ITransaction) -> pb.ShowPersonResponse:
            known = known_person(self.writer.rows(tx), request.person)
            good = [one for one in tx.certificates.of(known.id) if one.expires > at]
            return pb.ShowPersonResponse(
                person=person_row(known),
                certificates=map(_certificate_row, good),
                tokens=[token_row(tx, one) for one in self.tokens.waiting_for(tx, known.id)],
                open_sessions=len(tx.sessions.open_of_person(known.id)),
            )

        return await self.writer.read("show a person", look)

    async def remove(
        self, request: pb.ChangePersonRequest, actor: Actor
    ) -> pb.ChangePersonResponse:
        """Let a person go for good: out of every group, and no token or certificate is of use.

        The id and the name stay taken, so that records of before name nobody else.
        """
        note = optional_note(request.note)

        def write(tx: ITransaction) -> tuple[Person, bool, int]:
            known = known_person(self.writer.rows(tx), request.person)
            sessions = len(tx.sessions.open_of_person(known.id))
            if not tx.people.revoke(known.id, self.writer.now()):
                return known, False, sessions
            details = {"person_id": known.id, **note}
            state = [PERSONS.now(tx, known.id)]
            self.writer.append(tx, PERSON_REVOKE, actor, details=details, state=state)
            if known.groups:
                self.groups.leave(tx, known, known.groups, actor)
            withdraw_tokens(tx, self.tokens, known, actor)
            end_sign_ins(tx, self.tokens, known, actor)
            remove_secrets(tx, self.writer, known, actor)
            take_altered(tx, self.tokens, known, actor, {})
            revoke_agents_of(tx, self.tokens, known, actor)
            return known, True, sessions

        known, changed, sessions = await self.writer.change("remove a person", write)
        return pb.ChangePersonResponse(
            id=known.id, name=known.known_name, changed=changed, open_sessions=sessions
        )

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
            known = known_person(self.writer.rows(tx), request.person)
            if known.state is PersonState.REVOKED:
                raise _inactive(known)
            changed = change(tx, known)
            if changed:
                self.writer.append(
                    tx,
                    event,
                    actor,
                    details={"person_id": known.id, **note},
                    state=[PERSONS.now(tx, known.id)],
                )
            return known, changed, len(tx.sessions.open_of_person(known.id))

        known, changed, sessions = await self.writer.change(event.name, write)
        return pb.ChangePersonResponse(
            id=known.id, name=known.known_name, changed=changed, open_sessions=sessions
        )

    def enter(self, tx: ITransaction, name: str, groups: tuple[str, ...], actor: Actor) -> Person:
        """Add a person in these groups, which are made where they are missing, with the records.

        Raises:
            RightsRefused: the person would have rights that *actor* has not.
        """
        salt = self.writer.entropy(SALT_BYTES)
        added = Person(person_id(self.writer.entropy), name, groups=groups, salt=salt)
        self.groups.rights.require(tx, actor, [added])
        for group in groups:
            self.groups.ensure(tx, group, actor)
        tx.people.add(added, self.writer.now())
        self.writer.append(
            tx,
            PERSON_ADD,
            actor,
            details={"person_id": added.id, "name": added.name},
            state=[PERSONS.now(tx, added.id)],
        )
        for group in groups:
            self.groups.record_join(tx, added, group, actor)
        return added


def _certificate_row(one: IssuedCertificate) -> pb.CertificateRow:
    return pb.CertificateRow(
        serial=one.serial,
        issued_at=int(one.issued_at),
        expires_at=int(one.expires),
        revoked=one.revoked_at is not None,
    )


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
        f"person {known.name}: was removed", reason="revoked_person", fault=Fault.PRECONDITION
    )
