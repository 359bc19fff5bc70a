"""Accounts, as operators give, list and take them.

A code leaves here once, and is kept only as a hash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from attrs import define
from twisted.logger import Logger

from svc.authority.accounts.codes import code_sha256, enrollment_code
from svc.authority.accounts.enrollment import has_administrator, refuse_administrator
from svc.authority.accounts.first import FirstAdministratorCode
from svc.authority.accounts.secrets import SealedSecrets
from svc.authority.registry.credentials import end_hidden_sign_ins, end_sign_ins
from svc.authority.registry.people import PeopleAdmin
from svc.authority.registry.secrets import remove_passkey, remove_secrets
from svc.authority.registry.words import (
    already_exists,
    checked_name,
    known_person,
    optional_note,
)
from svc.authority.state.tables import SECRETS
from svc.errors import Malformed
from svc.interfaces.store import ITransaction
from svc.model.audit.events import ACCOUNT_CODE
from svc.model.audit.record import Actor
from svc.model.cluster.account import PersonSecret, SecretKind
from svc.model.cluster.person import Person, require_active
from svc.model.ids import is_opaque_id
from svc.proto.gate.v1 import account_pb2 as pb

CODE_SECS = 86_400
_log = Logger(namespace="svc_authority")
_MOST_SECS = 7 * 86_400
_SECOND_FACTORS = (SecretKind.TOTP, SecretKind.KEY, SecretKind.PASSKEY)


@define
class AccountAdmin:
    """Gives people codes to set a password with, and takes accounts away.

    Attributes:
        ca_pin: SHA-256 of the cluster root in hex; goes with every code.
    """

    people: PeopleAdmin
    secrets: SealedSecrets
    first: FirstAdministratorCode
    ca_pin: str
    now: Callable[[], float]

    async def add(self, request: pb.AddAccountRequest, actor: Actor) -> pb.AddAccountResponse:
        """Give a person, who is added if nobody has the name, a one-time code.

        With ``reset`` everything that an account had is taken away first, and its sign-ins end.
        """
        if not 0 <= request.ttl_secs <= _MOST_SECS:
            raise Malformed(f"ttl: at most {_MOST_SECS} seconds")
        note, code = optional_note(request.note), enrollment_code(self.secrets.entropy)
        ttl = request.ttl_secs or CODE_SECS

        def add(tx: ITransaction) -> tuple[Person, PersonSecret, int]:
            known = self._person(tx, request, actor)
            if not request.reset and self._has_account(tx, known):
                raise already_exists(
                    f"person {known.name}: has an account; to take its password and second "
                    f"factor away, use `svc authority accounts reset {known.name}`"
                )
            remove_secrets(tx, self.people.writer, known, actor, note)
            ended = self._end_sign_ins(tx, known, actor) if request.reset else 0
            row = self.secrets.new(
                known.id,
                SecretKind.ENROLLMENT,
                code_sha256(code),
                expires_at=self.now() + ttl,
            )
            tx.secrets.add(row)
            self.people.writer.append(
                tx,
                ACCOUNT_CODE,
                actor,
                details={"person_id": known.id, "ttl_seconds": ttl, **note},
                state=[SECRETS.now(tx, row.id)],
            )
            return known, row, ended

        known, row, ended = await self.people.writer.change("give a code", add)
        return pb.AddAccountResponse(
            id=known.id,
            code=code,
            ca_pin=self.ca_pin,
            expires_at=int(row.expires_at or 0),
            sign_ins_ended=ended,
        )

    def _end_sign_ins(self, tx: ITransaction, known: Person, actor: Actor) -> int:
        """End all of a person's sign-ins, whatever the store shows of them; how many."""
        tokens = self.people.tokens
        hidden = end_hidden_sign_ins(tx, tokens, known, actor)  # while the others are as signed
        return hidden + end_sign_ins(tx, tokens, known, actor)

    def _has_account(self, tx: ITransaction, known: Person) -> bool:
        rows = self.people.writer.rows(tx).secrets_of(known.id)
        return any(one.kind is SecretKind.PASSWORD for one in rows)

    def _person(self, tx: ITransaction, request: pb.AddAccountRequest, actor: Actor) -> Person:
        rows = self.people.writer.rows(tx)
        if request.reset:
            return self._checked(tx, known_person(rows, request.person), actor)
        name = checked_name(request.person, "name")
        if is_opaque_id(name):
            raise Malformed("name: has the form of an id; choose another")
        groups = tuple(sorted({checked_name(group, "group") for group in request.groups}))
        known = rows.person_named(name)
        self.people.groups.require(tx, groups, create=request.create_groups)
        if known is None:
            return self.people.enter(tx, name, groups, actor)
        if set(groups) - set(known.groups):
            raise already_exists(
                f"person {name}: exists already; change groups with `svc authority groups members`"
            )
        return self._checked(tx, known, actor)

    def _checked(self, tx: ITransaction, known: Person, actor: Actor) -> Person:
        """Somebody who is there already, and whom *actor* may give a code."""
        self.people.groups.rights.require(tx, actor, [require_active(known)])
        return known

    async def list_accounts(
        self, request: pb.ListAccountsRequest, actor: Actor
    ) -> pb.ListAccountsResponse:
        """Everybody who has an account, or a code for one."""

        def look(tx: ITransaction) -> list[pb.AccountRow]:
            names = {one.id: one.known_name for one in tx.people.all()}
            of: dict[str, list[PersonSecret]] = {}
            for one in tx.secrets.all():
                of.setdefault(one.person_id, []).append(one)
            return [self._row(id, names.get(id, ""), rows) for id, rows in of.items()]

        rows: list[pb.AccountRow] = await self.people.writer.read("list accounts", look)
        rows.sort(key=lambda row: row.name)
        return pb.ListAccountsResponse(accounts=rows)

    async def remove(
        self, request: pb.RemoveAccountRequest, actor: Actor
    ) -> pb.RemoveAccountResponse:
        """Take an account away: password, second factors, codes; its sign-ins end.

        The person stays, and may sign in otherwise.
        """
        note = optional_note(request.note)

        def remove(tx: ITransaction) -> tuple[Person, bool, int]:
            known = known_person(self.people.writer.rows(tx), request.person)
            changed = remove_secrets(tx, self.people.writer, known, actor, note) > 0
            ended = self._end_sign_ins(tx, known, actor)
            return known, changed, ended

        known, changed, ended = await self.people.writer.change("remove an account", remove)
        return pb.RemoveAccountResponse(
            id=known.id, name=known.known_name, changed=changed, sign_ins_ended=ended
        )

    async def remove_passkey(
        self, request: pb.RemovePasskeyRequest, actor: Actor
    ) -> pb.RemovePasskeyResponse:
        """Take one passkey of an account away; all sign-ins of the person end.

        By which of its passkeys somebody signed in is not known afterwards.
        """
        note = optional_note(request.note)

        def remove(tx: ITransaction) -> tuple[Person, bool, int]:
            writer = self.people.writer
            known = known_person(writer.rows(tx), request.person)
            changed = remove_passkey(
                tx, writer, known, actor, passkey_id=request.passkey, note=note
            )
            ended = self._end_sign_ins(tx, known, actor) if changed else 0
            return known, changed, ended

        known, changed, ended = await self.people.writer.change("remove a passkey", remove)
        return pb.RemovePasskeyResponse(
            id=known.id, name=known.known_name, changed=changed, sign_ins_ended=ended
        )

    async def first_administrator(
        self, request: pb.FirstAdministratorRequest, actor: Actor
    ) -> pb.FirstAdministratorResponse:
        """Make the code of the first administrator again; it is written to its file alone."""

        def look(tx: ITransaction) -> bool:
            return has_administrator(tx, self.people.writer.rows(tx))

        if await self.people.writer.read("look for administrators", look):
            raise refuse_administrator()
        made = await self.first.make()
        return pb.FirstAdministratorResponse(
            path=str(self.first.path), expires_at=int(made.expires_at), ca_pin=self.ca_pin
        )

    async def begin(self) -> None:
        """On a new cluster, where nobody is yet, make the code of the first administrator.

        Raises:
            SvcError: the store does not answer.
        """
        people = await self.people.writer.read("look for people", lambda tx: tx.people.all())
        if people:
            return
        try:
            await self.first.make_once()
        except OSError as refused:
            _log.warn(
                "the code of the first administrator could not be written; make it with "
                "`svc authority accounts first-administrator`",
                error=refused.strerror or "",
            )

    def _row(self, id: str, name: str, rows: Iterable[PersonSecret]) -> pb.AccountRow:
        rows = list(rows)
        kinds = [one.kind for one in rows]
        code = max((one.expires_at or 0.0 for one in rows), default=0.0)
        waits = code > self.now()
        state = "waiting" if waits else "expired"
        return pb.AccountRow(
            person_id=id,
            name=name,
            state="active" if SecretKind.PASSWORD in kinds else state,
            second_factors=sorted({kind.value for kind in kinds if kind in _SECOND_FACTORS}),
            recovery_codes=kinds.count(SecretKind.RECOVERY),
            code_expires_at=int(code) if waits else 0,
            passkeys=[
                pb.PasskeyRow(id=one.id, added_at=int(one.added_at))
                for one in sorted(rows, key=lambda one: one.added_at)
                if one.kind is SecretKind.PASSKEY
            ],
        )
