"""The record of a batch is what the sealer of every record would write, byte by byte."""

from __future__ import annotations

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.log.record import MAX_RECORD, Sealer, Unrecordable
from svc.audit.spool.batch_rows import BatchRecordForm
from svc.model.audit.events import REQUEST_BATCH
from svc.model.audit.record import Actor, AuditRecord
from svc.model.audit.spool import LARGEST_N, SpoolPlace
from svc.model.canonical import Json
from svc.model.ids import event_id
from tests.support.examples import examples

ORIGIN, KEY_ID = "p" * 26, "a" * 64
SEALER = Sealer(bytes)
HEX = st.text("0123456789abcdef", min_size=32, max_size=32)


def record(**more: object) -> AuditRecord:
    """One of this origin's."""
    return AuditRecord(
        event=REQUEST_BATCH,
        actor=Actor("node", ORIGIN),
        origin=ORIGIN,
        node_id=ORIGIN,
        key_id=KEY_ID,
        details={"proxy_id": ORIGIN},
        **{"event_id": "x", "time": 1.0, **more},  # type: ignore[arg-type]
    )


class BatchRecordTests(SynchronousTestCase):
    """The form of one origin's."""

    def setUp(self) -> None:
        self.form = BatchRecordForm.of(record(), ORIGIN, SEALER.seal)

    @settings(max_examples=examples(200))
    @given(data=st.data())
    def test_same(self, data: st.DataObject) -> None:
        """Whatever is of one batch alone."""
        sessions = st.tuples(HEX, st.integers(1, LARGEST_N), st.integers(1, LARGEST_N))
        batch: dict[str, Json] = {
            "count": data.draw(st.integers(1, 256)),
            "last_id": data.draw(HEX),
            "root": data.draw(HEX) * 2,
            "sessions": [list(one) for one in data.draw(st.lists(sessions, max_size=4))],
        }
        at = data.draw(st.floats(0, 2**32))
        place = SpoolPlace(
            data.draw(HEX), data.draw(st.integers(1, LARGEST_N)), bytes.fromhex(data.draw(HEX)) * 2
        )
        decision_id, event = data.draw(HEX), event_id(at, bytes)
        whole = record(batch=batch, decision_id=decision_id, event_id=event, spool=place, time=at)
        self.assertEqual(
            self.form.canonical(batch, decision_id, event, place, at),
            SEALER.seal(whole).canonical,
        )

    def test_too_large(self) -> None:
        """A batch whose record would be too long is refused, as any record is."""
        batch: dict[str, Json] = {"root": "0" * MAX_RECORD}
        place = SpoolPlace("0" * 32, 1)
        self.assertRaises(Unrecordable, self.form.canonical, batch, "0" * 32, "x", place, 1.0)

    def test_another_origin(self) -> None:
        """What an origin's batches share is its own."""
        other = evolve(record(), node_id="q" * 26, key_id="b" * 64)
        self.assertNotEqual(BatchRecordForm.of(other, "q" * 26, SEALER.seal), self.form)
