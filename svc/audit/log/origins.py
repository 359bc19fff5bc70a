"""Verifies records that other instances wrote: who signed them, and that each appears once.

The chain and its heads show that a record is the one that was appended; this
shows that its origin signed it, for that place of its spool.  Memory grows with
spools, not with records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from attrs import define, field

from svc.audit.log.verify import PLACED, ChainFault
from svc.errors import Malformed
from svc.model.audit.ledger import ChainRow
from svc.model.audit.replay import RowStanding, SpoolMemory, accept
from svc.model.audit.spool import SpoolRow, place_of, row_hash, verify_row
from svc.model.canonical import decode
from svc.model.signing import BadSignature

KeyOf = Callable[[str, str], bytes | None]
"""``key_of(origin, key_id)``: the raw audit key of that node, where it has that id and a signed
record stands behind it; whether the node was revoked since does not matter."""


@define
class OriginCheck:
    """Checks the records with a place, in the order of the log.

    Attributes:
        records: How many there were.
    """

    key_of: KeyOf
    records: int = field(default=0, init=False)
    _memories: dict[tuple[str, str], SpoolMemory] = field(factory=dict, init=False)

    def check(self, batches: Iterable[Sequence[ChainRow]], last: int) -> None:
        """Check the rows of *batches* up to record *last*; the chain over them is verified.

        Raises:
            ChainFault: kind ``origin``, naming the first bad record.
        """
        for batch in batches:
            for row in batch:
                if row.seq > last:
                    return
                if row.signature or PLACED in row.canonical:
                    self._check(row)

    def _check(self, row: ChainRow) -> None:
        try:
            form = decode(row.canonical)
        except Malformed as refused:
            raise ChainFault(row.seq, "origin", refused.text) from refused
        if not isinstance(form, dict) or ("spool" not in form and not row.signature):
            return
        if not row.signature or "spool" not in form:
            missing = "its place in a spool" if row.signature else "the signature of its origin"
            raise ChainFault(row.seq, "origin", f"{missing} is missing")
        try:
            origin, place = place_of(form)
            key_id = str(form.get("key_id"))
            key = self.key_of(origin, key_id)
            if key is None:
                raise BadSignature("no signed record names the key of its origin")
            verify_row(
                SpoolRow(
                    canonical=row.canonical, personal=(), key_id=key_id, signature=row.signature
                ),
                key,
            )
        except (Malformed, BadSignature) as refused:
            raise ChainFault(row.seq, "origin", refused.text) from refused
        spool, own = (origin, place.spool_id), row_hash(row.canonical)
        memory = self._memories.get(spool, SpoolMemory())
        standing = memory.standing(place.n, place.prev, own)
        if standing is not RowStanding.NEW:
            what = (
                "it is in the log twice"
                if standing is RowStanding.REPLAYED
                else ("it does not follow the other rows of its spool")
            )
            raise ChainFault(row.seq, "origin", what)
        self._memories[spool] = accept(memory, place.n, place.prev, own, 0.0, None).memory
        self.records += 1
