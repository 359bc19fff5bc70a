"""Protected rows inside a transaction: only what a signed record says is given out (rule R8).

Whoever reads a row of people, nodes, tokens, certificates, resources or
policies to decide by it, or to change it, reads it here.  A row that is not
what the newest signed record of its subject says has no effect: reading it is
refused, whatever was asked.  A change therefore never puts its signature under
what somebody else did to the row before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from attrs import frozen

from svc.audit.state import Seen, StateBroken, StateLedger
from svc.errors import Denied
from svc.interfaces.store import ITransaction
from svc.model.node import Node
from svc.model.person import IssuedCertificate, Person
from svc.model.policy_version import PolicyVersion
from svc.model.state import (
    StateEntry,
    certificate_entry,
    group_entry,
    node_entry,
    person_entry,
    policy_entry,
    resource_entry,
    token_entry,
)

_Row = TypeVar("_Row")


class StateUnsigned(Denied):
    """A stored row that no signed record stands behind: ``state.unsigned``."""

    reason = "state_unsigned"


def refuse_unsigned(subject: str) -> StateUnsigned:
    """The refusal of one row."""
    return StateUnsigned(
        f"{subject}: the store does not hold what the signed record says; nothing is done with it "
        "until it is put right (see `svc authority status`)"
    )


@frozen
class SignedRows:
    """The protected rows of one transaction, as they were when this was made."""

    tx: ITransaction
    seen: Seen
    ledger: StateLedger

    @classmethod
    def of(cls, ledger: StateLedger, tx: ITransaction) -> SignedRows:
        """For reading in *tx* now; made anew after a change in the same transaction.

        Raises:
            StateUnsigned: the store has records of state that do not verify.
        """
        try:
            return cls(tx, ledger.within(tx.state), ledger)
        except StateBroken as broken:
            raise StateUnsigned(broken.text) from broken

    def node(self, node_id: str) -> Node | None:
        """The node, also when revoked.  Raises StateUnsigned; so do all below."""
        return self._good(f"node:{node_id}", self.tx.nodes.get(node_id), node_entry)

    def node_called(self, word: str) -> Node | None:
        """The node of that id, or the active one of that name."""
        found = self.node(word)
        if found is None and (found := self.tx.nodes.named(word)) is not None:
            self.require(node_entry(found))
        return found

    def person(self, person_id: str) -> Person | None:
        """The person, also when revoked."""
        return self._good(f"person:{person_id}", self.tx.people.get(person_id), person_entry)

    def person_named(self, name: str) -> Person | None:
        """The person of that name."""
        found = self.tx.people.named(name)
        if found is not None:
            self.require(person_entry(found))
        return found

    def group(self, name: str) -> bool:
        """Whether there is such a group; one that is gone may be added again."""
        if name not in self.tx.people.groups():
            return False
        self.require(group_entry(name))
        return True

    def certificate(self, sha256: bytes) -> IssuedCertificate | None:
        """The certificate, also when revoked."""
        found = self.tx.certificates.get(sha256)
        return self._good(f"certificate:{sha256.hex()}", found, certificate_entry)

    def policy(self, version: int) -> PolicyVersion | None:
        """One version of the policy."""
        return self._good(f"policy:{version}", self.tx.policies.get(version), policy_entry)

    def policy_in_force(self) -> PolicyVersion | None:
        """The newest version put in force; nothing newer may be there unsigned."""
        for newer in self.tx.policies.newer(self.seen.policy, 1):
            raise refuse_unsigned(f"policy:{newer.version}")
        for version in range(self.seen.policy, 0, -1):
            found = self.policy(version)
            if found is not None and found.activated_at is not None:
                return found
        return None

    def require(self, entry: StateEntry) -> None:
        """Refuse a row that is not the one recorded."""
        signed = self.seen.get(entry.subject)
        if signed is None or signed.digest != entry.digest:
            raise refuse_unsigned(entry.subject)

    def _good(
        self, subject: str, row: _Row | None, entry_of: Callable[[_Row], StateEntry]
    ) -> _Row | None:
        signed = self.seen.get(subject)
        if row is None and signed is None:
            return None
        if row is None or signed is None:
            raise refuse_unsigned(subject)
        if self.ledger.entry(subject, row, entry_of).digest != signed.digest:
            raise refuse_unsigned(subject)
        return row


# -- what a change left behind, for its record; read back, so that it is what a store gives


def node_now(tx: ITransaction, node_id: str) -> StateEntry:
    """The node as it stands in *tx* now."""
    found = tx.nodes.get(node_id)
    return StateEntry(f"node:{node_id}", None) if found is None else node_entry(found)


def person_now(tx: ITransaction, person_id: str) -> StateEntry:
    """The person as it stands in *tx* now."""
    found = tx.people.get(person_id)
    return StateEntry(f"person:{person_id}", None) if found is None else person_entry(found)


def token_now(tx: ITransaction, token_id: str) -> StateEntry:
    """The token as it stands in *tx* now."""
    found = tx.tokens.get(token_id)
    return StateEntry(f"token:{token_id}", None) if found is None else token_entry(found)


def certificate_now(tx: ITransaction, sha256: bytes) -> StateEntry:
    """The certificate as it stands in *tx* now."""
    found = tx.certificates.get(sha256)
    subject = f"certificate:{sha256.hex()}"
    return StateEntry(subject, None) if found is None else certificate_entry(found)


def resource_now(tx: ITransaction, resource_id: str) -> StateEntry:
    """The resource as it stands in *tx* now."""
    found = tx.catalog.get(resource_id)
    return StateEntry(f"resource:{resource_id}", None) if found is None else resource_entry(found)


def policy_now(tx: ITransaction, version: int) -> StateEntry:
    """The version of the policy as it stands in *tx* now."""
    found = tx.policies.get(version)
    return StateEntry(f"policy:{version}", None) if found is None else policy_entry(found)


def rows_now(tx: ITransaction, at: float) -> dict[str, StateEntry]:
    """Every protected row that means anything at *at*."""
    entries = [person_entry(one) for one in tx.people.all()]
    entries += [group_entry(one) for one in tx.people.groups()]
    entries += [node_entry(one) for one in tx.nodes.all()]
    entries += [resource_entry(one) for one in tx.catalog.all()]
    entries += timed_rows(tx, at)
    for policy in tx.policies.history(1_000_000):
        entries.append(policy_entry(policy))
    return {one.subject: one for one in entries}


def timed_rows(tx: ITransaction, at: float) -> list[StateEntry]:
    """Every token and certificate whose time is not over at *at*."""
    entries = [token_entry(one) for one in tx.tokens.unexpired(at)]
    return entries + [certificate_entry(one) for one in tx.certificates.unexpired(at)]
