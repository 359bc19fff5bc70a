"""Creates the rows of a spool: sealed like the leader's, numbered, signed by the origin."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from attrs import define, evolve, field
from cryptography.hazmat.primitives.asymmetric import ed25519

from svc.audit.log.record import Sealer
from svc.audit.spool.batch_rows import BatchRecordForm
from svc.audit.spool.batches import OpenBatch
from svc.audit.spool.entries import SpoolRequest
from svc.audit.spool.entry.facts import FactTexts
from svc.audit.spool.entry.forms import EntryForm, Recorded, form_of
from svc.messages.spooled import check_row
from svc.model.audit.entry_tree import RequestPlace
from svc.model.audit.events import REQUEST_BATCH, SPOOL_CLOSE, SPOOL_OPEN
from svc.model.audit.ledger import PersonalValue
from svc.model.audit.record import Actor, AuditRecord, Event
from svc.model.audit.request import SealedRequest, SessionNumbers
from svc.model.audit.spool import SpoolPlace, SpoolRow, audit_key_id, row_signer
from svc.model.canonical import Json
from svc.model.ids import Entropy, event_id


@define
class RowMaker:
    """Makes the rows of one origin.

    Attributes:
        origin: Its node id.
        key: Its audit key.
    """

    origin: str
    key: ed25519.Ed25519PrivateKey
    sealer: Sealer
    now: Callable[[], float]
    entropy: Entropy
    key_id: str = field(init=False)
    """How its rows name the key."""

    _texts: FactTexts = field(init=False)

    @_texts.default
    def _of_facts(self) -> FactTexts:
        return FactTexts(self.sealer.facts)

    @key_id.default
    def _its_id(self) -> str:
        return audit_key_id(self.key.public_key().public_bytes_raw())

    def row(self, record: AuditRecord, place: SpoolPlace) -> SpoolRow:
        """The row of *record* at its place.

        Raises:
            SvcError: it may not be written, whatever it was to allow must not happen.
        """
        placed = evolve(record, origin=self.origin, key_id=self.key_id, spool=place)
        sealed = self.sealer.seal(placed)
        return self._signed(sealed.canonical, sealed.personal)

    def _signed(self, canonical: bytes, beside: tuple[PersonalValue, ...]) -> SpoolRow:
        signature = row_signer(self.key)(canonical)
        row = SpoolRow(
            canonical=canonical, personal=beside, key_id=self.key_id, signature=signature
        )
        check_row(row)
        return row

    def checked(self, request: Recorded) -> EntryForm:
        """See :func:`form_of`."""
        texts = self._texts
        if texts.facts is not self.sealer.facts:
            texts = self._texts = FactTexts(self.sealer.facts)
        return form_of(request, texts)

    def seal(self, requests: Sequence[SpoolRequest]) -> None:
        """Make the entries of requests that were checked, where they are not made yet."""
        entropy = self.sealer.entropy
        for one in requests:
            if one.unsealed is not None:
                form, record = one.unsealed
                one.sealed, one.unsealed = form.sealed(record, entropy), None

    def batch(
        self,
        entries: Sequence[SealedRequest],
        place: SpoolPlace,
        numbers: dict[SessionNumbers, int],
    ) -> SpoolRow:
        """The row of a batch at its place.

        Args:
            numbers: The newest number of each session; those of the batch are put in.
        """
        batch = OpenBatch(numbers)
        batch.add(entries, self.entropy)
        parts = batch.parts(RequestPlace(self.origin, place.spool_id, place.n))
        at = self.now()
        canonical = self._batch_form.canonical(
            batch=parts.form,
            decision_id=parts.decision_id,
            event_id=event_id(at, self.entropy),
            place=place,
            time=at,
        )
        return self._signed(canonical, parts.beside)

    @cached_property
    def _batch_form(self) -> BatchRecordForm:
        record = evolve(self._own(REQUEST_BATCH, {"proxy_id": self.origin}), key_id=self.key_id)
        return BatchRecordForm.of(record, self.origin, self.sealer.seal)

    def opening(self, spool_id: str, former: tuple[str, ...]) -> AuditRecord:
        """The first record of a spool, which names the ones before that are still kept."""
        details: dict[str, Json] = {"spool_id": spool_id, "key_digest": self.key_id}
        return self._own(SPOOL_OPEN, {**details, "former_spools": list(former)})

    def closing(self, spool_id: str, n: int) -> AuditRecord:
        """The last record of a spool."""
        return self._own(SPOOL_CLOSE, {"spool_id": spool_id, "last_n": n})

    def _own(self, event: Event, details: Mapping[str, Json]) -> AuditRecord:
        at, actor = self.now(), Actor("node", self.origin)
        return AuditRecord(
            event_id=event_id(at, self.entropy),
            time=at,
            event=event,
            actor=actor,
            origin=self.origin,
            node_id=self.origin,
            details=details,
        )
