"""The cluster's facts without rows that no signed record covers (rule R8).

Runs in the store's reading thread, over one snapshot.  A row that deviates
from its entry is left out, and named.  Where this process still holds the very
row that the entry names, that one stays in force: whoever changes a table takes
nothing away either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from attrs import define, field, frozen

from svc.audit.state.in_force import Seen
from svc.authority.state.cluster import ClusterState
from svc.authority.state.tables import timed_rows
from svc.interfaces.store import ITransaction
from svc.model.audit.state import (
    CATALOG,
    TIMED_SORTS,
    StateEntry,
    group_entry,
    key_entry,
    node_entry,
    person_entry,
    policy_entry,
    resource_entry,
)
from svc.model.policy.version import PolicyVersion

_Row = TypeVar("_Row")

NAMED_POLICIES = 64
"""Versions past the newest signed one that are named; more wait until these are gone."""


@frozen
class Unsigned:
    """One row that is not what its record says.

    Attributes:
        subject: Whose row; ``log:<n>`` where it is the records themselves.
        stored: The digest of what the store holds, in hex; None: it holds nothing.
        signed: The digest that was signed for; None: there should be nothing.
        why: What is wrong, where that is not said by the digests.
    """

    subject: str
    stored: str | None = None
    signed: str | None = None
    why: str = ""


@define
class Digests:
    """Remembers the digest of a row for as long as the row stays what it is.

    Used by one thread at a time.
    """

    _kept: dict[str, tuple[object, StateEntry]] = field(factory=dict)
    _fresh: dict[str, tuple[object, StateEntry]] = field(factory=dict)

    def of(self, subject: str, row: _Row, entry_of: Callable[[_Row], StateEntry]) -> StateEntry:
        """The entry of *row*."""
        kept = self._kept.get(subject)
        if kept is None or kept[0] != row:
            kept = (row, entry_of(row))
        self._fresh[subject] = kept
        return kept[1]

    def turn(self) -> None:
        """Forget what was not asked for since the last turn."""
        self._kept, self._fresh = self._fresh, {}


@define
class StateVerifier:
    """Verifies the rows that one transaction sees.

    Args:
        seen: What is in force by the records.
        before: The facts this process goes by until now.
    """

    seen: Seen
    before: ClusterState
    digests: Digests
    unsigned: dict[str, Unsigned] = field(factory=dict)
    stored_policy: int = 0
    _absent: set[str] = field(factory=set)
    _wanted: dict[str, dict[str, StateEntry]] = field(factory=dict)

    def state(self, tx: ITransaction) -> ClusterState:
        """The facts of *tx* that are in force."""
        before = self.before
        for one in self.seen.all().values():
            if one.digest is not None:
                self._wanted.setdefault(one.sort, {})[one.subject] = one
        people = {one.id: one for one in tx.people.all()}
        nodes = {one.id: one for one in tx.nodes.all()}
        catalog = {one.id: one for one in tx.catalog.all()}
        groups = {one: one for one in tx.people.groups()}
        known_groups = {one: one for one in before.groups}
        keys = {f"{one.kind}:{one.revision}": one for one in tx.keyrings.all()}
        facts = ClusterState(
            people=self._good("person", people, before.people, person_entry),
            nodes=self._good("node", nodes, before.nodes, node_entry),
            catalog=self._good("resource", catalog, before.catalog, resource_entry),
            groups=tuple(sorted(self._good("group", groups, known_groups, group_entry))),
            policy=self._policy(tx),
            keys=self._good("key", keys, before.keys, key_entry),
            revision=self._revision(tx),
            absent=frozenset(self._absent),
        )
        self.digests.turn()
        return facts

    def sweep(self, tx: ITransaction, at: float) -> None:
        """Also check tokens and certificates, which do not affect the facts."""
        entries = timed_rows(tx, at)
        for entry in entries:
            self._agrees(entry.subject, entry.digest)
        met = {entry.subject for entry in entries}
        for sort in TIMED_SORTS:
            for subject, signed in self._wanted.get(sort, {}).items():
                if subject not in met and (signed.until or 0) > at:
                    self._agrees(subject, None)

    def _good(
        self,
        sort: str,
        rows: Mapping[str, _Row],
        before: Mapping[str, _Row],
        entry_of: Callable[[_Row], StateEntry],
    ) -> dict[str, _Row]:
        """The rows of one sort that are in force."""
        good: dict[str, _Row] = {}
        wanted, digest_of = self._wanted.get(sort, {}), self.digests.of
        for id, row in rows.items():
            subject = f"{sort}:{id}"
            entry, signed = digest_of(subject, row, entry_of), wanted.get(subject)
            if signed is not None and signed.digest == entry.digest:
                good[id] = row
            else:
                self._agrees(subject, entry.digest)
        if len(good) == len(wanted):
            return good
        for subject, signed in wanted.items():
            id = subject.partition(":")[2]
            if id in good:
                continue
            if id not in rows:
                self._agrees(subject, None)
            known = before.get(id)
            if known is not None and entry_of(known).digest == signed.digest:
                good[id] = known
            else:
                self._absent.add(subject)
        return good

    def _policy(self, tx: ITransaction) -> PolicyVersion | None:
        """The newest version in force; the one before it where it is not as it was signed."""
        stored = tx.policies.active()
        self.stored_policy = 0 if stored is None else stored.version
        for newer in tx.policies.newer(self.seen.policy, NAMED_POLICIES):
            self._agrees(f"policy:{newer.version}", policy_entry(newer).digest)
        for version in range(self.seen.policy, 0, -1):
            subject, row = f"policy:{version}", tx.policies.get(version)
            found = None if row is None else self.digests.of(subject, row, policy_entry)
            if not self._agrees(subject, None if found is None else found.digest):
                return self.before.policy
            if row is not None and row.activated_at is not None:
                return row
        return None

    def _revision(self, tx: ITransaction) -> int:
        stored, signed = tx.catalog.revision(), self.seen.catalog
        if stored != signed:
            self.unsigned[CATALOG] = Unsigned(CATALOG, str(stored), str(signed))
        return signed

    def _agrees(self, subject: str, stored: bytes | None) -> bool:
        signed = self.seen.get(subject)
        wanted = None if signed is None else signed.digest
        if stored == wanted:
            return True
        self.unsigned[subject] = Unsigned(subject, _hex(stored), _hex(wanted))
        return False


def _hex(digest: bytes | None) -> str | None:
    return None if digest is None else digest.hex()
