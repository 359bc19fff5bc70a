"""Writes the audit record of an effect inside the effect's own transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol

from attrs import define, field

from svc.audit.log.record import Sealer
from svc.audit.state.in_force import OriginKey, StateBroken, StateLedger, about_session
from svc.authority.state.tables import SignedRows, StateUnsigned, refuse_unsigned
from svc.errors import Unavailable
from svc.interfaces.store import ITransaction
from svc.model.audit.events import STATE_ADOPT
from svc.model.audit.ledger import ChainRow, EntitySlice
from svc.model.audit.record import NOTHING, Actor, AuditRecord, Event, SealedRecord, rfc3339
from svc.model.audit.state import CATALOG, CATALOG_SORTS, StateChange, StateEntry
from svc.model.canonical import Json
from svc.model.cluster.agent import caller_kind
from svc.model.ids import Entropy, event_id

MAX_POLICIES = 256
"""As many determining policies are named in a record and in an answer."""

PEOPLE = frozenset({"person", "group"})
"""Sorts of rows that say who is in the cluster, and in which group."""

_MOST_ACTORS = 4096
"""Kept of each sort: every look at a budget and every record names one."""

ANONYMOUS = Actor("anonymous", "-")


def operator(uid: int) -> Actor:
    """The holder of the control socket (rule R19)."""
    return Actor("operator", f"local:{uid}")


@lru_cache(_MOST_ACTORS)
def person(person_id: str) -> Actor:
    """A person, or an agent by its id."""
    return Actor(caller_kind(person_id), person_id)


@lru_cache(_MOST_ACTORS)
def node(node_id: str) -> Actor:
    """A node of the registry."""
    return Actor("node", node_id)


class StateRecords(Protocol):
    """Gives the protected rows, and takes the records of their changes.

    A :class:`Recorder`, or a writer that has one.
    """

    @property
    def now(self) -> Callable[[], float]:
        """The time that is recorded."""

    def rows(self, tx: ITransaction) -> SignedRows:
        """See :meth:`Recorder.rows`."""

    def append(
        self,
        tx: ITransaction,
        event: Event,
        actor: Actor,
        *,
        details: Mapping[str, Json] = NOTHING,
        state: Sequence[StateEntry] = (),
    ) -> ChainRow:
        """See :meth:`Recorder.append`."""


@define
class Recorder:
    """Seals records of this instance and appends them.

    Attributes:
        origin: The node id of this Authority.
        ledger: What is in force by the records before.
        key: Signs the records that change protected rows.
    """

    origin: str
    sealer: Sealer
    now: Callable[[], float]
    entropy: Entropy
    ledger: StateLedger
    key: OriginKey
    _checks: list[Callable[[ITransaction], object]] = field(factory=list)
    _bounds: list[Callable[[ITransaction, Sequence[StateEntry]], object]] = field(factory=list)

    def on_people_changed(self, check: Callable[[ITransaction], object]) -> None:
        """Call *check* in each transaction that changes people or groups, once that is recorded.

        What it raises undoes the transaction.
        """
        self._checks.append(check)

    def on_rows_changed(
        self, check: Callable[[ITransaction, Sequence[StateEntry]], object]
    ) -> None:
        """Call *check* with the protected rows that a record says are changed, in its transaction.

        What it raises undoes the transaction.
        """
        self._bounds.append(check)

    def sign_with(self, key: OriginKey) -> None:
        """Sign with a newer key from now on."""
        self.key = key

    def rows(self, tx: ITransaction) -> SignedRows:
        """The protected rows of *tx* as they are now.  Raises StateUnsigned."""
        return SignedRows.of(self.ledger, tx)

    def append(
        self,
        tx: ITransaction,
        event: Event,
        actor: Actor,
        *,
        details: Mapping[str, Json] = NOTHING,
        entities: EntitySlice | None = None,
        state: Sequence[StateEntry] = (),
        before: Sequence[SealedRecord] = (),
        **fields: Any,
    ) -> ChainRow:
        """Append one record, and its link; called inside a store function, so it may run again.

        Args:
            tx: The transaction of the effect.
            event: What happened.
            actor: Who did it.
            details: The event's own fields.
            entities: The slice of entities a decision was made over.
            state: The protected rows that this transaction changed, as they now are;
                what was there before was read through :meth:`rows`.
            before: Of :meth:`sealed`, to be appended right before it.
            fields: Of :class:`AuditRecord`.

        Raises:
            SvcError: the record holds what its event does not classify, or the
                records of state before it are not as they were signed; the
                transaction is then undone, and nothing is granted.
        """
        at, key = self.now(), self.key  # one key, though a newer one be taken meanwhile
        change = self._change(tx, event, state) if state else None
        if change is not None:
            _check_time(key, at)
        key_id = None if change is None else key.key_id
        sealed = self._sealed(
            at, event, actor, key_id=key_id, details=details, state=change, **fields
        )
        row = tx.audit.append(sealed.canonical, sealed.personal, entities, before=before)
        if change is not None:
            signature = key.sign(sealed.canonical)
            tx.state.append(change.n, row.seq, key.key_id, signature, key.certificate)
            uid, proxy_id = fields.get("session_uid"), details.get("proxy_id")
            self.ledger.remember(row.hash, about_session(change, uid, proxy_id))
            if event is not STATE_ADOPT:
                self._check(tx, state)
        return row

    def sealed(
        self, event: Event, actor: Actor, *, details: Mapping[str, Json] = NOTHING, **fields: Any
    ) -> SealedRecord:
        """A record that changes no protected rows, for whoever appends another behind it.

        Raises:
            SvcError: as :meth:`append`.
        """
        return self._sealed(self.now(), event, actor, details=details, **fields)

    def _sealed(self, at: float, event: Event, actor: Actor, **fields: Any) -> SealedRecord:
        record = AuditRecord(
            event_id=event_id(at, self.entropy),
            time=at,
            event=event,
            actor=actor,
            origin=self.origin,
            **fields,
        )
        return self.sealer.seal(record)

    def _check(self, tx: ITransaction, state: Sequence[StateEntry]) -> None:
        if not PEOPLE.isdisjoint(one.sort for one in state):
            for check in self._checks:
                check(tx)
        for bound in self._bounds:  # last: they count what is about to be committed
            bound(tx, state)

    def _change(self, tx: ITransaction, event: Event, state: Sequence[StateEntry]) -> StateChange:
        """What follows the newest record of state that this transaction sees."""
        seen = self.rows(tx).seen
        try:
            self.ledger.check_end(tx.state, seen)
        except StateBroken as broken:
            raise StateUnsigned(broken.text) from broken
        catalog = None
        if not CATALOG_SORTS.isdisjoint(one.sort for one in state):
            catalog = tx.catalog.revision()
            # A counter that was put back would keep this change from ever being followed.
            if catalog <= seen.catalog and event is not STATE_ADOPT:
                raise refuse_unsigned(CATALOG)
        return StateChange(n=seen.n + 1, prev=seen.hash, rows=tuple(state), catalog=catalog)


@define
class RecordedOnce:
    """One record, or the last of several that one transaction appends.

    A transaction whose answer was lost may have been committed all the same.  The log itself
    says whether it was: its row stands where it was appended, or another one does.
    """

    _row: ChainRow | None = field(default=None, init=False)

    def append(self, tx: ITransaction, append: Callable[[ITransaction], ChainRow | None]) -> None:
        """Append, unless an earlier transaction did; called inside a store function."""
        if not self._is_there(tx):
            self._row = append(tx)

    def _is_there(self, tx: ITransaction) -> bool:
        if self._row is None:
            return False
        return any(one.hash == self._row.hash for one in tx.audit.rows(self._row.seq, 1))


def _check_time(key: OriginKey, at: float) -> None:
    """Refuse to sign what could never be verified."""
    if at < key.begins_at:
        raise Unavailable(
            "the certificate that signs records of state is valid from "
            f"{rfc3339(key.begins_at)}, which is later than this host's clock; nothing was "
            "changed; correct the clock",
            reason="audit_key_not_begun",
        )
    if at >= key.ends_at:
        raise Unavailable(
            "the certificate that signs records of state has expired; nothing was changed; "
            "create the next one with `svc authority keys renew audit-origin`",
            reason="audit_key_expired",
        )
