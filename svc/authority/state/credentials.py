"""Finds credentials that were signed for and whose rows are missing or altered (rules R8, R31).

Such a row is in force again once somebody puts it back as it was.  So whoever takes
credentials away asks here for those of the person that the tables do not show, and
signs that they are gone too.  Whose a credential is, is said by the records that
signed for it: these are chained by their hashes up to the newest, which was verified.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from attrs import evolve, field, frozen

from svc.audit.state.protected import ProtectedTable
from svc.authority.state.tables import (
    CERTIFICATES,
    SIGN_INS,
    TOKENS,
    SignedRows,
    StateUnsigned,
)
from svc.interfaces.store import ITransaction
from svc.model.audit.events import (
    AGENT_ENROLL,
    CERTIFICATE_REVOKE,
    ENROLL_REFUSED,
    IDENTITY_UNLINK,
    PERSON_ENROLL,
    SIGN_IN_END,
    TOKEN_REVOKE,
)
from svc.model.audit.record import chain_hash
from svc.model.audit.state import StateEntry, StateRow
from svc.model.canonical import decode
from svc.model.cluster.node import TokenRole
from svc.model.cluster.person import IssuedCertificate
from svc.model.cluster.sign_in import SIGNED_OUT

_TABLES: Mapping[str, ProtectedTable[Any, Any]] = {
    table.name: table for table in (CERTIFICATES, SIGN_INS, TOKENS)
}
_ENDS: Mapping[str, Collection[str]] = {
    CERTIFICATES.name: {CERTIFICATE_REVOKE.name, SIGN_IN_END.name},
    SIGN_INS.name: {SIGN_IN_END.name, IDENTITY_UNLINK.name},
    TOKENS.name: {TOKEN_REVOKE.name, PERSON_ENROLL.name, ENROLL_REFUSED.name, AGENT_ENROLL.name},
}
"""By sort, the records after which a credential is of no use."""

_MOST_TOLD = 100_000
"""Missing or altered rows of which it is kept what their records say."""

_BATCH = 512


@frozen
class AlteredCredential:
    """A certificate, a sign-in or a token of which the store does not hold what was signed.

    Attributes:
        until: When it ends by itself.
        recorded: What records say of it: whose it is, a certificate's serial, its sign-in, and the
            event of the newest, and its reason.
    """

    subject: str
    until: int
    recorded: Mapping[str, str] = field(factory=dict)

    @property
    def sort(self) -> str:
        """The name of its table in records."""
        return self.subject.partition(":")[0]

    @property
    def id(self) -> str:
        """Its id in records."""
        return self.subject.partition(":")[2]

    @property
    def is_over(self) -> bool:
        """Whether it was spent, ended or revoked before: put back, it is that.

        Put back, a certificate whose holder signed out stands for what it had approved.
        """
        if self.sort == CERTIFICATES.name and self.recorded.get("reason") == SIGNED_OUT:
            return False
        return self.recorded.get("event") in _ENDS[self.sort]

    def is_of(self, person_id: str) -> bool:
        """Whether it is a person's; one that no record names anybody's counts as everybody's."""
        if (
            self.sort == TOKENS.name
            and self.recorded.get("role", "person") != TokenRole.PERSON.value
        ):
            return False
        return self.recorded.get("person_id", person_id) == person_id

    def take_away(self, tx: ITransaction, person_id: str, at: float) -> StateEntry:
        """Make it useless, whatever is done to its row; returns what the record must sign."""
        if self.sort == CERTIFICATES.name:
            sha256 = bytes.fromhex(self.id)
            row = IssuedCertificate(
                sha256=sha256,
                serial=self.recorded.get("serial", self.id),
                person_id=person_id,
                issued_at=at,
                expires=float(self.until + 1),
                revoked_at=at,
                sign_in_id=self.recorded.get("sign_in_id", ""),
            )
            tx.certificates.put(row)  # A Proxy is told of revoked ones by their rows.
            return CERTIFICATES.now(tx, sha256)
        if self.sort == SIGN_INS.name:
            known = tx.sign_ins.get(self.id)
            if known is not None:
                tx.sign_ins.put(evolve(known, ended_at=at, refresh=b""))
            return SIGN_INS.now(tx, self.id)
        tx.tokens.withdraw(self.id, at)
        return TOKENS.now(tx, self.id)


def altered_credentials(rows: SignedRows, at: float) -> tuple[AlteredCredential, ...]:
    """Every credential that has not expired and whose row is missing or altered.

    Raises:
        StateUnsigned: the records of state are not those that were verified.
    """
    wanted = {
        subject: one
        for subject, one in rows.seen.all().items()
        if one.sort in _TABLES and one.digest is not None and (one.until or 0) > at
    }
    for table in _TABLES.values():
        for entry in table.entries(rows.tx, at):
            signed = wanted.get(entry.subject)
            if signed is not None and signed.digest == entry.digest:
                del wanted[entry.subject]
    if not wanted:
        return ()
    recorded = recorded_of(rows, wanted)
    found = (
        AlteredCredential(subject, one.until or 0, recorded.get(subject, {}))
        for subject, one in sorted(wanted.items())
    )
    return tuple(one for one in found if not one.is_over)


def hidden_of(
    rows: SignedRows, table: ProtectedTable[Any, Any], field_name: str, owner: str, at: float
) -> frozenset[str]:
    """The subjects of an owner's rows that were signed for and are missing, altered or moved.

    One that no record names anybody's counts as everybody's.

    Args:
        field_name: What records name the owner by.

    Raises:
        StateUnsigned: the records of state are not those that were verified.
    """
    as_signed = {one.subject for one in table.entries(rows.tx, at) if rows.is_signed(one)}
    hidden = {
        subject
        for subject, one in rows.seen.all().items()
        if one.sort == table.name
        and one.digest is not None
        and (one.until is None or one.until > at)
        and subject not in as_signed
    }
    recorded = _known_of(rows, hidden)
    return frozenset(one for one in hidden if recorded[one].get(field_name, owner) == owner)


def _known_of(rows: SignedRows, wanted: Collection[str]) -> dict[str, Mapping[str, str]]:
    """As :func:`recorded_of`, but each row's records are read once for all who ask.

    Every renewal of an agent asks: a few rows that somebody hid would have each read the log.
    """
    told, seen = rows.ledger.told, rows.seen.all()
    places = {one: (one, seen[one].digest or b"") for one in wanted}
    unread = [one for one, place in places.items() if place not in told]
    if unread:
        found = recorded_of(rows, unread)
        if len(told) + len(unread) > _MOST_TOLD:
            told.clear()
        told.update({places[one]: found.get(one, {}) for one in unread})
    return {one: told[place] for one, place in places.items()}


def recorded_of(rows: SignedRows, wanted: Collection[str]) -> dict[str, dict[str, str]]:
    """What the records of these subjects say of them, read from the first record on.

    Raises:
        StateUnsigned: the records of state are not those that were verified.
    """
    found: dict[str, dict[str, str]] = {}
    n, before = 0, b""
    while part := rows.tx.state.since(n, _BATCH):
        for row in part:
            record = _record(row, n, before)
            n, before = row.n, row.hash
            named = {one[0] for one in record["state"]["rows"]} & set(wanted)
            details = record.get("details", {})
            for subject in named:
                recorded = {"event": str(record["event"]), **_of(subject, details)}
                recorded["reason"] = str(record.get("reason") or "")
                found.setdefault(subject, {}).update(recorded)
    if (n, before) != (rows.seen.n, rows.seen.hash):
        raise _broken(n)
    return found


def _of(subject: str, details: Mapping[str, Any]) -> dict[str, str]:
    named = {
        name: details[name]
        for name in ("person_id", "agent_id", "sign_in_id", "role")
        if isinstance(details.get(name), str)
    }
    sort, _, id = subject.partition(":")
    if sort == CERTIFICATES.name and details.get("certificate_sha256") == id:
        named |= {"serial": str(details["serial"])} if "serial" in details else {}
    return named


def _record(row: StateRow, n: int, before: bytes) -> Mapping[str, Any]:
    """The record, if it is what was hashed and names the one before."""
    record = decode(row.canonical) if row.canonical else None
    if (
        row.n != n + 1
        or not isinstance(record, Mapping)
        or chain_hash(row.seq, row.prev_hash, row.canonical) != row.hash
    ):
        raise _broken(n + 1)
    change: Any = record["state"]
    if n and change["prev"] != before.hex():
        raise _broken(n + 1)
    return record


def _broken(n: int) -> StateUnsigned:
    return StateUnsigned(
        f"state record {n}: it is not the one that was verified; nothing was changed (see `svc "
        "authority status`)"
    )
