"""Erases a person's name, and the personal values in records of the person (rule R9).

The log verifies as before: a value is a salted hash in it, and a record names what else is
missing.  Records are gone through a part at a time, each in its own transaction, so that a long
log keeps no other writer waiting.  What is cut short is finished by asking again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from attrs import define, field, frozen

from svc.audit.log.entries import erased_name, erased_slice
from svc.audit.log.find import opened_session
from svc.audit.log.verify import batch_at
from svc.authority.registry.secrets import remove_secrets
from svc.authority.registry.unlink import unlink_account
from svc.authority.registry.words import known_person
from svc.authority.state.tables import PERSONS
from svc.authority.state.writer import StateWriter
from svc.interfaces.store import ITransaction
from svc.model.audit.batch import RequestBatch, is_batch, without
from svc.model.audit.events import (
    AUDIT_ERASED,
    IDENTITY_LINK,
    REQUEST_ERASED,
    SIGN_IN_REFUSED,
    USER_FORGET_NAME,
)
from svc.model.audit.ledger import ChainRow, EntitySlice
from svc.model.audit.record import Actor, Event
from svc.model.canonical import Json, decode
from svc.model.cluster.person import Person
from svc.proto.gate.v1 import admin_pb2 as pb

ROWS = 500
SLICES = 256
NAMED = 200
"""So many erased values one record names."""

_SALT_BYTES = 16
_SUBJECT = "subject_at_issuer"
_Account = tuple[str, str]
"""Issuer and subject."""


@frozen
class ErasurePlan:
    """What one part of the log holds of a person.

    Attributes:
        last: The last record looked at.
        plain: Records all of whose personal values go.
        entries: By batch, the index and path of each value that goes.
    """

    last: int
    plain: tuple[int, ...] = ()
    entries: Mapping[int, Sequence[tuple[int, str]]] = field(factory=dict)


@define
class PersonErasure:
    """Forgets names, and erases what records hold beside their hashes."""

    writer: StateWriter

    async def forget_name(
        self, request: pb.ForgetNameRequest, actor: Actor
    ) -> pb.ForgetNameResponse:
        """Put the id in the place of the name; by id, once more changes nothing.

        The salt of the row goes too, so that nobody can try names against older digests.
        """
        salt = self.writer.entropy(_SALT_BYTES)

        def forget(tx: ITransaction) -> tuple[Person, bool, int]:
            known = known_person(self.writer.rows(tx), request.person)
            unlinked = self._unlink(tx, known, actor)
            changed = tx.people_changes.forget_name(known.id, salt)
            if changed:
                details = {"person_id": known.id}
                state = [PERSONS.now(tx, known.id)]
                self.writer.append(tx, USER_FORGET_NAME, actor, details=details, state=state)
            return known, changed or unlinked, tx.audit.head().seq

        known, changed, head = await self.writer.change("forget a name", forget)
        erased = 0
        if request.records:
            # First, while the records of the links still say which accounts were theirs.
            erased = await self._erase_refusals(known.id, head, actor)
            erased += await self._erase_records(known.id, head, actor)
            erased += await self._erase_slices(known.id, actor)
        return pb.ForgetNameResponse(id=known.id, changed=changed, erased=erased)

    def _unlink(self, tx: ITransaction, known: Person, actor: Actor) -> bool:
        """Remove the person's accounts; a subject at a provider is a name too.

        One that is kept here signs in by the name, which nobody has from now on.
        """
        theirs = [one for one in tx.sign_ins.identities() if one.person_id == known.id]
        for one in theirs:
            unlink_account(tx, self.writer, one, actor, {})
        return remove_secrets(tx, self.writer, known, actor) > 0 or bool(theirs)

    async def _erase_refusals(self, person_id: str, last: int, actor: Actor) -> int:
        """Erase what refused sign-ins say of accounts that became the person's; how many."""
        accounts: set[_Account] = set()
        await self._each_part(
            last, "look for a person's accounts", partial(_accounts, person_id, accounts)
        )
        if not accounts:
            return 0
        refused: list[int] = []
        await self._each_part(
            last, "look for refused sign-ins", partial(_refusals, accounts, refused)
        )
        erased = 0
        for start in range(0, len(refused), ROWS):
            plan = ErasurePlan(last, plain=tuple(refused[start : start + ROWS]))
            erased += await self.writer.record(
                "erase refused sign-ins",
                partial(self._erase, plan=plan, person_id=person_id, actor=actor),
            )
        return erased

    async def _each_part(
        self, last: int, desc: str, look: Callable[[ITransaction, int, int], int]
    ) -> None:
        after = 0
        while after < last:
            after = await self.writer.read(desc, partial(_at, look, after, last))

    async def _erase_records(self, person_id: str, last: int, actor: Actor) -> int:
        """Erase the person's values in the records up to *last*; how many."""
        erased, after = 0, 0
        while after < last:
            plan = await self.writer.read(
                "look for a person's values",
                partial(_plan, person_id=person_id, after=after, last=last),
            )
            if plan.plain or plan.entries:
                erased += await self.writer.record(
                    "erase a person's values",
                    partial(self._erase, plan=plan, person_id=person_id, actor=actor),
                )
            after = plan.last
        return erased

    def _erase(self, tx: ITransaction, plan: ErasurePlan, person_id: str, actor: Actor) -> int:
        plain = sum(tx.audit.erase_personal(seq) for seq in plan.plain)
        if plain:
            details: dict[str, Json] = {"count": plain, "person_id": person_id}
            self.writer.append(tx, AUDIT_ERASED, actor, details=details)
        names: list[str] = []
        for seq, values in plan.entries.items():
            beside = tx.audit.personal(seq, seq).get(seq, ())
            for index, path in values:
                changed = without(beside, index, path)
                if changed is not None:
                    beside = tuple(changed if one.path == changed.path else one for one in beside)
                    names.append(erased_name(seq, index, path))
            for one in beside:
                tx.audit.erase_personal(seq, one)
        for some in _chunks(names):
            self.writer.append(tx, REQUEST_ERASED, actor, details={"erased": some})
        return plain + len(names)

    async def _erase_slices(self, person_id: str, actor: Actor) -> int:
        """Erase the slices of entities that hold the name as it was; how many."""
        erased, after = 0, ""
        while True:
            found = await self.writer.read(
                "look for a person's entities", partial(_slices_after, after=after)
            )
            if not found:
                return erased
            after = found[-1].digest
            named = [one.digest for one in found if _has_name(one.text, person_id)]
            if named:
                erased += await self.writer.record(
                    "erase entities",
                    partial(self._erase_some, digests=named, person_id=person_id, actor=actor),
                )

    def _erase_some(
        self, tx: ITransaction, digests: Iterable[str], person_id: str, actor: Actor
    ) -> int:
        gone = [each for each in digests if tx.repair.erase_slice(each)]
        for some in _chunks([erased_slice(each) for each in gone]):
            details: dict[str, Json] = {
                "count": len(some),
                "person_id": person_id,
                "erased": some,
            }
            self.writer.append(tx, AUDIT_ERASED, actor, details=details)
        return len(gone)


def _plan(tx: ITransaction, person_id: str, after: int, last: int) -> ErasurePlan:
    rows = [row for row in tx.audit.rows(after + 1, ROWS) if row.seq <= last]
    if not rows:
        return ErasurePlan(last)
    personal = tx.audit.personal(rows[0].seq, rows[-1].seq)
    plain: list[int] = []
    entries: dict[int, list[tuple[int, str]]] = {}
    for row in rows:
        beside = personal.get(row.seq, ())
        record = decode(row.canonical) if beside else None
        if not isinstance(record, dict):
            continue
        if is_batch(record):
            found = _values(tx, batch_at(row, record, beside), person_id)
            if found:
                entries[row.seq] = found
        elif _concerns(tx, record, person_id):
            plain.append(row.seq)
    return ErasurePlan(_seen(rows, last), tuple(plain), entries)


def _at(
    look: Callable[[ITransaction, int, int], int], after: int, last: int, tx: ITransaction
) -> int:
    return look(tx, after, last)


def _accounts(
    person_id: str, accounts: set[_Account], tx: ITransaction, after: int, last: int
) -> int:
    """Add the accounts that were linked to a person in one part of the log; how far it was."""
    rows = [row for row in tx.audit.rows(after + 1, ROWS) if row.seq <= last]
    for seq, record in _records(rows, IDENTITY_LINK):
        details = record["details"]
        subject = _subject(tx, seq)
        if details.get("person_id") == person_id and subject:
            accounts.add((details.get("issuer", ""), subject))
    return _seen(rows, last) if rows else last


def _refusals(
    accounts: set[_Account], refused: list[int], tx: ITransaction, after: int, last: int
) -> int:
    """Add the sign-ins of these accounts that were refused in one part of the log."""
    rows = [row for row in tx.audit.rows(after + 1, ROWS) if row.seq <= last]
    for seq, record in _records(rows, SIGN_IN_REFUSED):
        if (record["details"].get("issuer", ""), _subject(tx, seq)) in accounts:
            refused.append(seq)
    return _seen(rows, last) if rows else last


def _records(rows: Sequence[ChainRow], event: Event) -> Iterable[tuple[int, Mapping[str, Any]]]:
    """The records of one event."""
    mark = f'"{event.name}"'.encode("ascii")
    for row in rows:
        record = decode(row.canonical) if mark in row.canonical else None
        if isinstance(record, Mapping) and record.get("event") == event.name:
            yield row.seq, record


def _subject(tx: ITransaction, seq: int) -> str:
    """The subject of an account that a record names, if it is not erased."""
    beside = tx.audit.personal(seq, seq).get(seq, ())
    return next((one.value for one in beside if one.path.endswith(_SUBJECT)), "")


def _seen(rows: Sequence[ChainRow], last: int) -> int:
    return rows[-1].seq if len(rows) == ROWS else last


def _values(tx: ITransaction, batch: RequestBatch, person_id: str) -> list[tuple[int, str]]:
    """The values of a batch's entries that are of the person's sessions."""
    theirs = {
        at
        for at, header in enumerate(batch.headers)
        if _is_session_of(tx, header.session_uid, person_id)
    }
    return [
        (one.index, one.path)
        for one in batch.personal
        if int(batch.entries[one.index]["session"]) in theirs
    ]


def _concerns(tx: ITransaction, record: Mapping[str, Any], person_id: str) -> bool:
    """Whether a record is by a person, about them, or of a session of theirs."""
    details, asked = record.get("details"), record.get("request")
    principal = asked.get("principal") if isinstance(asked, Mapping) else None
    return (
        record.get("actor") == {"kind": "person", "id": person_id}
        or (isinstance(details, Mapping) and details.get("person_id") == person_id)
        or (isinstance(principal, Mapping) and principal.get("id") == person_id)
        or _is_session_of(tx, record.get("session_uid"), person_id)
    )


def _is_session_of(tx: ITransaction, uid: object, person_id: str) -> bool:
    session = opened_session(tx, uid) if isinstance(uid, str) and uid else None
    return session is not None and session.person_id == person_id


def _slices_after(tx: ITransaction, after: str) -> tuple[EntitySlice, ...]:
    return tx.audit.slices(after, SLICES)


def _has_name(text: str, person_id: str) -> bool:
    """Whether a slice of entities says what the person is called."""
    if f'"id":"{person_id}"' not in text:
        return False
    entities = json.loads(text)
    names = [each["attrs"].get("name") for each in entities if each["uid"]["id"] == person_id]
    return any(name not in (None, person_id) for name in names)


def _chunks(names: list[str]) -> Iterable[list[Json]]:
    return (list(names[start : start + NAMED]) for start in range(0, len(names), NAMED))
