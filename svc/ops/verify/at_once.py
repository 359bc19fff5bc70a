"""Verifies many rows of the log at once, as the store gave them, where nothing is wrong with them.

It says yes or nothing.  Whoever gets no answer checks the same rows one by one, by
:func:`svc.audit.log.verify.verified_range`, which finds and names what is wrong.  So nothing is
refused here, and what is accepted here is what would be accepted there.  Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import cast

from attrs import define, field

from svc.audit.checkpoint.merkle import leaf_hashes
from svc.audit.log.alike import Alike, KnownRecords
from svc.audit.log.record import SALT_BYTES, are_json
from svc.audit.log.verify import ChainFault, SaidBeside, VerifiedRange, check_record
from svc.model.audit.ledger import ChainRow, PersonalValue, StoredRow, StoredValue
from svc.model.audit.record import chain_hashes


def verified_at_once(
    first: int, rows: Sequence[StoredRow], values: Sequence[StoredValue], known: KnownRecords
) -> VerifiedRange | None:
    """Check *rows*, which are to be the records from *first* on; None unless all are good.

    Args:
        values: Every personal value of these records, in order.
        known: How records were written that were good.
    """
    try:
        return _verified(first, rows, values, known)
    except (ChainFault, TypeError, AttributeError, LookupError, ValueError):
        return None  # A fault, or a value of a type that no store of ours keeps.


def _verified(
    first: int, rows: Sequence[StoredRow], values: Sequence[StoredValue], known: KnownRecords
) -> VerifiedRange | None:
    seqs, prevs, hashes, records, signatures = zip(*rows, strict=True)
    if set(map(type, records)) == {str}:
        records = tuple(one.encode() for one in cast("tuple[str, ...]", records))
    if (
        not _are_of(bytes, (*prevs, *hashes, *records, *filter(None, signatures)))
        or seqs != tuple(range(first, first + len(rows)))
        or prevs[1:] != hashes[:-1]
        or chain_hashes(first, prevs, records) != list(hashes)
    ):
        return None
    said = _SaidAtOnce(first=first, records=records, values=values, known=known)
    if not said.is_good():
        return None
    told = said.told
    return VerifiedRange(
        prev=prevs[0],
        hashes=b"".join(hashes),
        leaves=b"".join(leaf_hashes(records, signatures)),
        by_others=told.by_others or any(signatures),
        slices=told.slices,
        missing=told.missing,
        erased=told.erased,
    )


def _are_of(kind: type, values: Sequence[object]) -> bool:
    return set(map(type, values)) <= {kind}


@define
class _SaidAtOnce:
    """What records say, and whether the values beside them are the ones that they hide."""

    first: int
    records: Sequence[bytes]
    values: Sequence[StoredValue]
    known: KnownRecords
    told: SaidBeside = field(factory=lambda: SaidBeside(is_whole=True), init=False)
    _alike: list[Alike | None] = field(factory=list, init=False)
    _beside: dict[int, list[PersonalValue]] | None = field(default=None, init=False)

    def is_good(self) -> bool:
        """Whether all is good; raises where something is not, too."""
        told, seen, keep = self.told, set[bytes](), self._alike.append
        for seq, alike in enumerate(self.known.reading(self.records), self.first):
            keep(alike)
            if alike is None:
                self._judge(seq)
                continue
            form, said = alike
            if form.digest and (digest := said[form.digest]) not in seen:
                seen.add(digest)
                told.slices.setdefault(digest.decode(), seq)
            if form.is_placed:
                told.by_others = True
        return self._are_hidden()

    def _judge(self, seq: int) -> None:
        """Take in a record of no known form; raises ChainFault."""
        if self._beside is None:
            self._beside = {}
            for of, path, salt, text in self.values:
                self._beside.setdefault(of, []).append(PersonalValue(path, salt, text))
        row = ChainRow(seq=seq, prev_hash=b"", hash=b"", canonical=self.records[seq - self.first])
        beside = self._beside.get(seq, ())
        self.told.by(row, check_record(row, beside, self.known), beside)

    def _are_hidden(self) -> bool:
        """Whether the values beside records of known forms are the ones that these hide."""
        first, alikes, values = self.first, self._alike, self.values
        if self._beside is not None:
            values = [one for one in values if alikes[one[0] - first] is not None]
        if not values:
            return True
        seqs, paths, salts, texts = zip(*values, strict=True)
        if set(map(len, salts)) != {SALT_BYTES} or not are_json(texts):
            return False
        hidden = [
            said[form.hidden[path]]
            for (form, said), path in zip([alikes[seq - first] for seq in seqs], paths, strict=True)
        ]
        return hidden == [
            sha256(salt + text.encode()).hexdigest().encode()
            for salt, text in zip(salts, texts, strict=True)
        ]
