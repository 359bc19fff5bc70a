"""Verifies the stored entities that decisions used.

A record holds the digest of its slice, so the chain protects the digest and the digest the
slice.  A slice that was changed, removed or put there by itself is a fault of its own kind.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from svc.audit.log.entries import decided_over, erased_slice
from svc.errors import AuditBroken, Malformed
from svc.interfaces.facets import IAuditLog
from svc.interfaces.store import ITransaction
from svc.model.audit.ledger import EntitySlice
from svc.model.canonical import decode
from svc.model.policy.access import entity_from_form
from svc.ops.store import StorePlace, why_unreadable
from svc.ops.verify.rows import batches
from svc.policy.entities import cedar_json, slice_digest

BATCH = 256
"""Slices in memory at a time."""


class SliceFault(AuditBroken):
    """A slice of entities is not the one that a decision was made over.

    Args:
        kind: ``slice_changed``, ``slice_missing`` or ``slice_orphaned``.
        digest: Names the slice.
        what: What was found.
        seq: The first record that names it, where there is one.
    """

    def __init__(self, kind: str, digest: str, what: str, seq: int | None = None) -> None:
        where = f"record {seq}" if seq is not None else f"entities {digest}"
        super().__init__(f"audit log: {where}: {kind}: {what}")
        self.kind = kind
        self.digest = digest
        self.what = what
        self.seq = seq


def check_slices(
    store: StorePlace,
    named: Mapping[str, int],
    last: int,
    erased: frozenset[str] = frozenset(),
) -> int:
    """Check the slices of entities that the first *last* records name; how many there are.

    The chain over these records has been verified.  Blocks.

    Args:
        named: Digests, and the first record that names each.
        erased: What records say was erased; a slice among it may be missing.

    Raises:
        SliceFault: naming the first slice that is not as a record says.
    """
    return store.look("audit entities", lambda tx: _check(tx, named, last, erased))


def _check(tx: ITransaction, named: Mapping[str, int], last: int, erased: frozenset[str]) -> int:
    newer: set[str] | None = None
    met, after = 0, ""
    while slices := _next(tx.audit, after):
        for each in slices:
            seq = named.get(each.digest)
            if seq is None:
                # A record that came after the last one that was verified may name it.
                newer = _named_after(tx.audit, last) if newer is None else newer
                if each.digest not in newer:
                    raise SliceFault("slice_orphaned", each.digest, "no record names them")
            else:
                met += 1
            if not _is_whole(each):
                what = (
                    f"the entities {each.digest} differ from those that the decision was based on"
                )
                raise SliceFault(kind="slice_changed", digest=each.digest, what=what, seq=seq)
        after = slices[-1].digest
    if met < len(named) and (missing := _first_missing(tx.audit, named, erased)) is not None:
        digest, seq = missing
        what = f"the entities {digest} that the decision was based on are missing from the store"
        raise SliceFault(kind="slice_missing", digest=digest, what=what, seq=seq)
    return met


def _next(log: IAuditLog, after: str) -> tuple[EntitySlice, ...]:
    try:
        return log.slices(after, BATCH)
    except Exception as failed:
        # Whatever a damaged store answers is a fault of the log.
        what = f"entities after {after or 'the beginning'}: unreadable: {why_unreadable(failed)}"
        raise AuditBroken(f"audit log: {what}") from failed


def _named_after(log: IAuditLog, last: int) -> set[str]:
    found = set[str]()
    for batch in batches(log, last + 1):
        for row in batch:
            record = decode(row.canonical)
            digest = decided_over(record) if isinstance(record, Mapping) else None
            if digest is not None:
                found.add(digest)
    return found


def _first_missing(
    log: IAuditLog, named: Mapping[str, int], erased: frozenset[str]
) -> tuple[str, int] | None:
    absent, after = (
        {each: seq for each, seq in named.items() if erased_slice(each) not in erased},
        "",
    )
    while slices := _next(log, after):
        for each in slices:
            absent.pop(each.digest, None)
        after = slices[-1].digest
    return min(absent.items(), key=lambda each: each[1], default=None)


def _is_whole(kept: EntitySlice) -> bool:
    """Whether the text is, byte for byte, that of the entities which the digest names."""
    try:
        form = json.loads(kept.text)
        if not isinstance(form, list):
            return False
        entities = [entity_from_form(each) for each in form]
        return cedar_json(entities) == kept.text and slice_digest(entities) == kept.digest
    except (ValueError, RecursionError, TypeError, Malformed):
        return False
