"""The cluster's facts without rows that no signed record covers (rule R8).

Runs in the store's reading thread, over one snapshot.  A row that deviates
from its entry is left out, and named.  Where this process still holds the very
row that the entry names, that one stays in force: whoever changes a table takes
nothing away either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from attrs import define, field, frozen
from twisted.logger import Logger
from twisted.python.failure import Failure

from svc.audit.state.in_force import Seen
from svc.audit.state.key_tables import (
    KEY_SETS,
    KEYS,
    PAUSES,
    ROOT_OWNERS,
    ROOT_SHARES,
    ROOTS,
)
from svc.audit.state.protected import ProtectedTable
from svc.authority.state.cluster import ClusterState
from svc.authority.state.tables import (
    AGENTS,
    CERTIFICATES,
    DELEGATIONS,
    EPOCHS,
    GROUPS,
    NODES,
    PERSONS,
    POLICIES,
    PROTECTED,
    RESOURCES,
)
from svc.authority.state.unreadable import require_store
from svc.interfaces.store import ITransaction
from svc.model.audit.state import (
    CATALOG,
    StateEntry,
)
from svc.model.cluster.agent import Delegation
from svc.model.policy.version import PolicyVersion

_Row = TypeVar("_Row")
_log = Logger(namespace="svc_authority")

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
    """Remembers a row and its digest for as long as the row stays what it is.

    A row that was read again and did not change is the same object, so that who compares states,
    or makes something of each row, sees at once which are others.  Used by one thread at a time.
    """

    _kept: dict[str, tuple[Any, StateEntry]] = field(factory=dict)
    _fresh: dict[str, tuple[Any, StateEntry]] = field(factory=dict)

    def of(
        self, subject: str, row: _Row, entry_of: Callable[[_Row], StateEntry]
    ) -> tuple[_Row, StateEntry]:
        """*row*, as it was read first, and its entry."""
        kept = self._kept.get(subject)
        if kept is None or kept[0] != row:
            kept = (row, entry_of(row))
        self._fresh[subject] = kept
        return kept

    def turn(self) -> None:
        """Forget what was not asked for since the last turn."""
        self._kept, self._fresh = self._fresh, {}


def _log_unreadable(table: str, failed: Exception) -> None:
    _log.failure("a protected table cannot be read", Failure(failed), table=table)


@define
class StateVerifier:
    """Verifies the rows that one transaction sees.

    Args:
        seen: What is in force by the records.
        before: The facts this process goes by until now.
        on_unreadable: Told the name of a table that cannot be read, and the error.
    """

    seen: Seen
    before: ClusterState
    digests: Digests
    on_unreadable: Callable[[str, Exception], object] = _log_unreadable
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
        known_groups = {one: one for one in before.groups}
        facts = ClusterState(
            people=self._good(PERSONS, tx, before.people),
            agents=self._good(AGENTS, tx, before.agents),
            nodes=self._good(NODES, tx, before.nodes),
            catalog=self._good(RESOURCES, tx, before.catalog),
            groups=tuple(sorted(self._good(GROUPS, tx, known_groups))),
            policy=self._policy(tx),
            keys=self._good(KEYS, tx, before.keys),
            epochs=self._good(EPOCHS, tx, before.epochs),
            roots=self._good(ROOTS, tx, before.roots),
            root_owners=self._good(ROOT_OWNERS, tx, before.root_owners),
            root_shares=self._good(ROOT_SHARES, tx, before.root_shares),
            key_sets=self._good(KEY_SETS, tx, before.key_sets),
            pauses=self._good(PAUSES, tx, before.pauses),
            revision=self._revision(tx),
            absent=frozenset(self._absent),
        )
        self.digests.turn()
        return facts

    def revoked(self, tx: ITransaction, at: float) -> dict[bytes, float]:
        """The certificates that are revoked at *at*, and when they expire.

        A revocation is final: what was revoked stays so, whatever the table says now.
        """
        found = {
            sha256: expires
            for sha256, expires in self.before.revoked_certificates.items()
            if expires > at
        }
        for one in tx.certificates.revoked(at):
            signed = self.seen.get(CERTIFICATES.subject(one.sha256))
            if signed is not None and signed.digest == CERTIFICATES.entry_of(one).digest:
                found[one.sha256] = one.expires
        return found

    def delegations(self, tx: ITransaction, at: float) -> dict[str, Delegation]:
        """The delegations that last at *at*; one that is not as it was signed gives nothing."""
        return {
            one.id: one
            for one in tx.delegations.unexpired(at)
            if one.revoked_at is None
            and (signed := self.seen.get(DELEGATIONS.subject(one.id))) is not None
            and signed.digest == DELEGATIONS.entry_of(one).digest
        }

    def sweep(self, tx: ITransaction, at: float) -> None:
        """Also check tokens and certificates, which do not affect the facts."""
        for table in PROTECTED:
            if table.expires:
                self._sweep(table.name, self._readable(table, tx, at), at)

    def _readable(
        self, table: ProtectedTable[Any, Any], tx: ITransaction, at: float
    ) -> list[StateEntry]:
        """The entries of a table; none where a row says what no such row can.

        All of its rows count as missing then: that keeps no other table from being looked at.
        """
        try:
            return table.entries(tx, at)
        except Exception as failed:
            require_store(tx)
            self.on_unreadable(table.name, failed)
            return []

    def _sweep(self, sort: str, entries: Iterable[StateEntry], at: float) -> None:
        met: set[str] = set()
        for entry in entries:
            met.add(entry.subject)
            self._agrees(entry.subject, entry.digest)
        for subject, signed in self._wanted.get(sort, {}).items():
            if subject not in met and (signed.until or 0) > at:
                self._agrees(subject, None)

    def _good(
        self,
        table: ProtectedTable[Any, _Row],
        tx: ITransaction,
        before: Mapping[str, _Row],
    ) -> dict[str, _Row]:
        """The rows of one table that are in force; none of them ends by itself."""
        good: dict[str, _Row] = {}
        rows = {table.id_of(row): row for row in table.all(tx, 0.0)}
        wanted, digest_of = self._wanted.get(table.name, {}), self.digests.of
        entry_of = table.entry_of
        for id, row in rows.items():
            subject = table.subject(id)
            (same, entry), signed = digest_of(subject, row, entry_of), wanted.get(subject)
            if signed is not None and signed.digest == entry.digest:
                good[id] = same
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
            self._agrees(POLICIES.subject(newer.version), POLICIES.entry_of(newer).digest)
        for version in range(self.seen.policy, 0, -1):
            subject, row = POLICIES.subject(version), tx.policies.get(version)
            same = None if row is None else self.digests.of(subject, row, POLICIES.entry_of)
            if not self._agrees(subject, None if same is None else same[1].digest):
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
