"""Gives out protected rows inside a transaction, if a signed record covers them (rule R8).

Whoever reads a row of people, nodes, tokens, certificates, resources or
policies to decide by it, or to change it, reads it here.  A row that is not
what the newest signed record of its subject says has no effect: reading it is
refused, whatever was asked.  A change therefore never puts its signature under
what somebody else did to the row before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from attrs import frozen

from svc.audit.state.in_force import Seen, StateBroken, StateLedger
from svc.errors import Denied
from svc.interfaces.store import ITransaction
from svc.model.audit.state import (
    StateEntry,
    certificate_entry,
    expected_entry,
    group_entry,
    key_entry,
    node_entry,
    person_entry,
    policy_entry,
    resource_entry,
    token_entry,
)
from svc.model.cluster.key_revision import KeyRevision
from svc.model.cluster.node import ExpectedKey, KeptToken, Node
from svc.model.cluster.person import IssuedCertificate, Person
from svc.model.cluster.resource import Resource
from svc.model.policy.version import PolicyVersion

_Id = TypeVar("_Id")
_Row = TypeVar("_Row")


@frozen
class _Sort(Generic[_Id, _Row]):
    """One sort of protected row: its name, where it lies, and what is signed of it."""

    name: str
    find: Callable[[ITransaction, _Id], _Row | None]
    entry_of: Callable[[_Row], StateEntry]

    def subject(self, row_id: _Id) -> str:
        """What the row of this id is called in a record."""
        return f"{self.name}:{row_id.hex() if isinstance(row_id, bytes) else row_id}"

    def now(self, tx: ITransaction, row_id: _Id) -> StateEntry:
        """The row after a change in *tx*, read back from the store, for the change's record."""
        found = self.find(tx, row_id)
        return StateEntry(self.subject(row_id), None) if found is None else self.entry_of(found)


_NODE = _Sort[str, Node]("node", lambda tx, row_id: tx.nodes.get(row_id), node_entry)
_PERSON = _Sort[str, Person]("person", lambda tx, row_id: tx.people.get(row_id), person_entry)
_TOKEN = _Sort[str, KeptToken]("token", lambda tx, row_id: tx.tokens.get(row_id), token_entry)
_EXPECTED = _Sort[str, ExpectedKey](
    "expected", lambda tx, row_id: tx.expected.get(row_id), expected_entry
)
_CERTIFICATE = _Sort[bytes, IssuedCertificate](
    "certificate", lambda tx, sha256: tx.certificates.get(sha256), certificate_entry
)
_RESOURCE = _Sort[str, Resource](
    "resource", lambda tx, row_id: tx.catalog.get(row_id), resource_entry
)
_POLICY = _Sort[int, PolicyVersion](
    "policy", lambda tx, version: tx.policies.get(version), policy_entry
)

node_now, person_now, token_now = _NODE.now, _PERSON.now, _TOKEN.now
expected_now = _EXPECTED.now
certificate_now, resource_now, policy_now = _CERTIFICATE.now, _RESOURCE.now, _POLICY.now


class StateUnsigned(Denied):
    """A stored row that no signed record covers: ``state.unsigned``."""

    reason = "state_unsigned"


def refuse_unsigned(subject: str) -> StateUnsigned:
    """The refusal of one row."""
    return StateUnsigned(
        f"{subject}: the store differs from the signed record; it is not used until that is "
        "corrected (see `svc authority status`)"
    )


@frozen
class SignedRows:
    """The protected rows of one transaction, as they were when this was made."""

    tx: ITransaction
    seen: Seen
    ledger: StateLedger

    @classmethod
    def of(cls, ledger: StateLedger, tx: ITransaction) -> SignedRows:
        """For reading in *tx* now; made again after a change in the same transaction.

        Raises:
            StateUnsigned: the store has records of state that do not verify.
        """
        try:
            return cls(tx, ledger.within(tx.state), ledger)
        except StateBroken as broken:
            raise StateUnsigned(broken.text) from broken

    def node(self, node_id: str) -> Node | None:
        """The node, also when revoked.  Raises StateUnsigned; so do all below."""
        return self._good(_NODE, node_id)

    def node_called(self, word: str) -> Node | None:
        """The node of that id, or the active one of that name."""
        found = self.node(word)
        if found is None and (found := self.tx.nodes.named(word)) is not None:
            self.require(node_entry(found))
        return found

    def expected(self, key_id: str) -> ExpectedKey | None:
        """A key that may join without a token, also when used."""
        return self._good(_EXPECTED, key_id)

    def person(self, person_id: str) -> Person | None:
        """The person, also when revoked."""
        return self._good(_PERSON, person_id)

    def person_named(self, name: str) -> Person | None:
        """The person of that name."""
        found = self.tx.people.named(name)
        if found is not None:
            self.require(person_entry(found))
        return found

    def group(self, name: str) -> bool:
        """Whether the group exists; a removed one may be added again."""
        if name not in self.tx.people.groups():
            return False
        self.require(group_entry(name))
        return True

    def certificate(self, sha256: bytes) -> IssuedCertificate | None:
        """The certificate, also when revoked."""
        return self._good(_CERTIFICATE, sha256)

    def resource(self, resource_id: str) -> Resource | None:
        """The resource, with its assignment."""
        return self._good(_RESOURCE, resource_id)

    def is_newest_resource(self, resource: Resource) -> bool:
        """Whether *resource* is what the newest signed record of it says; reads no table."""
        subject = _RESOURCE.subject(resource.id)
        signed = self.seen.get(subject)
        entry = self.ledger.entry(subject, resource, resource_entry)
        return signed is not None and signed.digest == entry.digest

    def policy(self, version: int) -> PolicyVersion | None:
        """One version of the policy."""
        return self._good(_POLICY, version)

    def policy_in_force(self) -> PolicyVersion | None:
        """The newest version in force; the store must have no newer one without a signature."""
        for newer in self.tx.policies.newer(self.seen.policy, 1):
            raise refuse_unsigned(f"policy:{newer.version}")
        for version in range(self.seen.policy, 0, -1):
            found = self.policy(version)
            if found is not None and found.activated_at is not None:
                return found
        return None

    def keys(self, kind: str) -> tuple[KeyRevision, ...]:
        """Every revision of a kind; refused as a whole where one is not as it was signed."""
        found = tuple(one for one in self.tx.keyrings.all() if one.kind == kind)
        entries = {one.subject: one for one in map(key_entry, found)}
        for subject, signed in self.seen.all().items():
            if subject.startswith(f"key:{kind}:") and signed.digest is not None:
                entries.setdefault(subject, StateEntry(subject, None))
        for entry in entries.values():
            self.require(entry)
        return found

    def require(self, entry: StateEntry) -> None:
        """Refuse a row that is not the one recorded."""
        signed = self.seen.get(entry.subject)
        if signed is None or signed.digest != entry.digest:
            raise refuse_unsigned(entry.subject)

    def _good(self, sort: _Sort[_Id, _Row], row_id: _Id) -> _Row | None:
        row, subject = sort.find(self.tx, row_id), sort.subject(row_id)
        signed = self.seen.get(subject)
        if row is None and signed is None:
            return None
        if row is None or signed is None:
            raise refuse_unsigned(subject)
        if self.ledger.entry(subject, row, sort.entry_of).digest != signed.digest:
            raise refuse_unsigned(subject)
        return row


def key_now(tx: ITransaction, kind: str, revision: int) -> StateEntry:
    """The current revision of an issuing CA in *tx*."""
    for found in tx.keyrings.all():
        if (found.kind, found.revision) == (kind, revision):
            return key_entry(found)
    return StateEntry(f"key:{kind}:{revision}", None)


def rows_now(tx: ITransaction, at: float) -> dict[str, StateEntry]:
    """Every protected row that means anything at *at*."""
    entries = [person_entry(one) for one in tx.people.all()]
    entries += [group_entry(one) for one in tx.people.groups()]
    entries += [node_entry(one) for one in tx.nodes.all()]
    entries += [resource_entry(one) for one in tx.catalog.all()]
    entries += [key_entry(one) for one in tx.keyrings.all()]
    entries += timed_rows(tx, at)
    for policy in tx.policies.history(1_000_000):
        entries.append(policy_entry(policy))
    return {one.subject: one for one in entries}


def timed_rows(tx: ITransaction, at: float) -> list[StateEntry]:
    """Every token, expected key and certificate whose time is not over at *at*."""
    entries = [token_entry(one) for one in tx.tokens.unexpired(at)]
    entries += [expected_entry(one) for one in tx.expected.unexpired(at)]
    return entries + [certificate_entry(one) for one in tx.certificates.unexpired(at)]
