"""The audit log as an outsider verifies it: from the store, the anchor and the root alone.

The store is read directly, so the Authority may run or not; nothing is trusted
of what it would say of itself.  Every call blocks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from attrs import evolve, frozen

from svc.audit.checkpoint.anchor import AnchorDirectory, heads_given
from svc.audit.checkpoint.head import head_time
from svc.audit.checkpoint.rewind import standing
from svc.audit.log.covered import (
    CoveredChain,
    CoveredRow,
    covered_row,
    prove_consistency,
    prove_inclusion,
)
from svc.audit.log.entries import RequestSession
from svc.audit.log.export import consistency, entry_inclusion, inclusion
from svc.audit.log.verify import ChainFault, Verified, VerifiedRange, verify
from svc.config import RoleSettings
from svc.errors import AuditBroken, ConfigError, NoSuchRow, SvcError
from svc.interfaces.audit import HeadVerifier, OriginVerifier
from svc.interfaces.store import ITransaction
from svc.model.audit.batch import VALUES
from svc.model.audit.ledger import ChainRow, PersonalValue
from svc.model.audit.record import SignedHead
from svc.ops.export import MANY_LINES, CoveredLines
from svc.ops.show import session_of
from svc.ops.store import StorePlace, store_place
from svc.ops.turns import uncollected
from svc.ops.verify.origins import check_origins
from svc.ops.verify.rows import MANY, checked_in_parallel, checked_rows
from svc.ops.verify.slices import check_slices
from svc.pki.audit_signatures import head_verifier, origin_verifier
from svc.pki.files import load_certificates
from svc.pki.identity_store import IdentityStore
from svc.pki.issue import der


@frozen
class OutsideLog:
    """The log of one Authority, for ``svc authority audit`` and the demo."""

    store: StorePlace
    keeper: AnchorDirectory
    verify_head: HeadVerifier
    cluster: str
    origins: OriginVerifier

    def verified(self, anchor: Path | None = None, jobs: int = 1) -> Verified:
        """Verify the stored records. Heads are read first, so none can cover more than is stored.

        Args:
            anchor: Heads that somebody kept elsewhere; they must be of this log, too.
            jobs: How many processes check a long log; one reads it in one snapshot.

        Raises:
            AuditBroken: the log does not verify, or what it is verified with is missing.
        """
        keeper, witnessed = self.keeper, None if anchor is None else heads_given(anchor)
        taken = [(keeper.latest(), keeper.heads())]

        def judged(checked: Iterable[VerifiedRange]) -> Verified:
            # The store may run this again; the heads of the first run are used up by then.
            latest, heads = taken.pop() if taken else (keeper.latest(), keeper.heads())
            return verify(
                checked,
                heads,
                self.verify_head,
                latest=latest,
                witnesses=() if witnessed is None else standing(witnessed, self.verify_head),
                cluster=self.cluster,
            )

        size = self._size() if jobs > 1 else 0
        if size >= MANY:
            with checked_in_parallel(self.store, size, jobs) as checked:
                found = judged(checked)
        else:
            with uncollected():
                found = self.store.look(
                    "audit verify",
                    lambda tx: judged(checked_rows(tx)),
                )
        if found.by_others:
            check_origins(self.store, self.origins, found.records)
        check_slices(self.store, found.slices, found.records, found.erased)
        return found

    def _size(self) -> int:
        """How many records there are; 0 where it cannot be read, which one process will name."""
        with suppress(SvcError):
            return self.store.look("audit verify", lambda tx: tx.audit.head().seq)
        return 0

    def lines(
        self,
        after: int,
        lines_of: Callable[[CoveredRow], Iterable[str]],
        *,
        personal: bool,
        jobs: int = 1,
    ) -> tuple[SignedHead, Iterator[str]]:
        """The newest head, and the lines of the entries past *after* that it covers.

        Args:
            jobs: How many processes make those of a long log; *lines_of* is called in each.
        """
        head = self.head()
        reader = Reader(self.store, personal, requests=True)
        chain = CoveredChain.after(reader, head, after)
        jobs = jobs if chain.end - after >= MANY_LINES else 1
        return head, CoveredLines(reader, lines_of).past(chain, jobs)

    def session(self, uid: str) -> RequestSession | None:
        """Whose session the requests of a batch are of."""
        return self.store.look("audit read", lambda tx: session_of(tx, uid))

    def _entry_inclusion(self, seq: int, index: int, head: SignedHead, *, personal: bool) -> str:
        found, hashes = prove_inclusion(self._reader(), head, seq)
        [(row, beside)] = Reader(self.store, personal, requests=True)(seq, 1)
        batch = covered_row(row, beside, requests=True)
        if batch.batch is None or index >= len(batch.batch.entries) or row != found.row:
            raise NoSuchRow(f"audit log: record {seq} has no request {index}")
        return entry_inclusion(batch, index, hashes, head)

    def inclusion(
        self, seq: int, over: int | None, index: int | None = None, *, personal: bool
    ) -> str:
        """A proof that record *seq* is in the log under the head over *over* records.

        Args:
            index: Of a request in that record, which is the one that is proved.

        Raises:
            NoSuchRow: the head does not cover such a record, or it has no such request.
        """
        head = self.head(over)
        if index is not None:
            return self._entry_inclusion(seq, index, head, personal=personal)
        return inclusion(*prove_inclusion(self._reader(personal=personal), head, seq), head)

    def consistency(self, first: int, over: int | None) -> str:
        """A proof that the first records begin the log under the head over *over* records."""
        head = self.head(over)
        return consistency(first, *prove_consistency(self._reader(), head, first), head)

    def head(self, over: int | None = None) -> SignedHead:
        """The newest head, or the one over so many records; its signature is good.

        Raises:
            AuditBroken: there is no head at all, or it is not good.
            NoSuchRow: no head over so many records is kept.
        """
        if over is None:
            found = self.keeper.newest()
            if found is None:
                raise ChainFault(
                    1, "no_anchor", "no signed head is known, so nothing can be proved"
                )
        else:
            found = self._head_over(over)
        self.verify_head(found.signed, head_time(found.head))
        if found.head.cluster != self.cluster:
            raise ChainFault(1, "head_mismatch", "the head belongs to another log")
        return found

    def _head_over(self, size: int) -> SignedHead:
        below = above = 0
        for each in self.keeper.heads():
            if each.head.tree_size == size:
                return each
            if each.head.tree_size > size:
                above = each.head.tree_size
                break
            below = each.head.tree_size
        near = " and ".join(str(each) for each in (below, above) if each) or "none"
        raise NoSuchRow(f"audit log: no head over {size} records is kept; the nearest are: {near}")

    def _reader(self, *, personal: bool = False) -> Reader:
        return Reader(self.store, personal)


@frozen
class Reader:
    """Reads a batch of rows, each in a new snapshot, so that no snapshot is held for long."""

    store: StorePlace
    personal: bool
    requests: bool = False

    def __call__(self, from_seq: int, limit: int) -> list[tuple[ChainRow, Sequence[PersonalValue]]]:
        """At most *limit* rows, with their personal values if they are to be told."""

        def look(tx: ITransaction) -> list[tuple[ChainRow, Sequence[PersonalValue]]]:
            rows = tx.audit.rows(from_seq, limit)
            values: Mapping[int, Sequence[PersonalValue]] = {}
            if rows and (self.personal or (self.requests and any(map(_may_be_batch, rows)))):
                values = tx.audit.personal(rows[0].seq, rows[-1].seq)
            return [(row, self._told(row, values.get(row.seq, ()))) for row in rows]

        return self.store.look("audit read", look)

    def _told(self, row: ChainRow, values: Sequence[PersonalValue]) -> Sequence[PersonalValue]:
        """What is told of what stands beside a row: of a batch without personal values the rest."""
        if self.personal:
            return values
        if not _may_be_batch(row):
            return ()
        return [evolve(one, value="[]") if one.path == VALUES else one for one in values]


def _may_be_batch(row: ChainRow) -> bool:
    return b'"event":"request.batch"' in row.canonical


def outside_log(settings: RoleSettings, state: Path) -> OutsideLog:
    """The log that *settings* name.

    Args:
        settings: Name the store and the cluster.
        state: The Authority's own state directory.

    Raises:
        AuditBroken: what it is verified with is missing.
        ConfigError: the store is not named rightly, or the root cannot be trusted.
    """
    root = _root(state)
    return OutsideLog(
        store=store_place(settings),
        keeper=AnchorDirectory(state / "anchor"),
        verify_head=head_verifier(root, settings.cluster),
        cluster=settings.cluster,
        origins=origin_verifier(root, settings.cluster),
    )


def _root(state: Path) -> bytes:
    """DER of the cluster's root, from the identity or the key directory.

    Raises:
        AuditBroken: neither holds one.
        ConfigError: it is there, but cannot be trusted.
    """
    pinned, kept = state / "trust" / "root.pem", state / "keys" / "root.pem"
    uid = owner_of(state)
    if os.path.lexists(pinned):
        return IdentityStore(state, uid=uid).load_root()
    if os.path.lexists(kept):
        roots = load_certificates(kept, uid)
        if len(roots) != 1:
            raise ConfigError(str(kept), "contains more than one certificate")
        return der(roots[0])
    raise AuditBroken(
        f"audit log: the cluster's root certificate is missing: neither {pinned} nor {kept} "
        "exists; nothing can be verified without it",
        reason="audit_root_missing",
    )


def owner_of(state: Path) -> int:
    """The required owner of the files: our own user; for root, the owner of the state directory."""
    if os.geteuid() != 0:
        return os.geteuid()
    try:
        return os.stat(state).st_uid
    except OSError as failed:
        raise SvcError(f"{state}: {failed.strerror}", reason="no_state_dir") from None
