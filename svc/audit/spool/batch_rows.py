"""Writes the record of a batch: all that the batches of one origin share is made once (ADR 56)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import evolve, frozen

from svc.audit.log.record import MAX_RECORD, Unrecordable
from svc.model.audit.plain_json import write_plain
from svc.model.audit.record import AuditRecord, SealedRecord, rfc3339
from svc.model.audit.spool import SpoolPlace
from svc.model.canonical import Json, encode

_MARK = "0" * 32
_TIME = 0.0


@frozen
class BatchRecordForm:
    """The text of a batch's record, but for what is of one batch alone.

    Members are in the order of their names, and these differ: ``batch``, ``decision_id``,
    ``event_id``, ``spool`` and ``time``.

    Attributes:
        pieces: What stands before each of them, and behind the last.
    """

    pieces: tuple[str, str, str, str, str, str]

    @classmethod
    def of(
        cls, record: AuditRecord, origin: str, seal: Callable[[AuditRecord], SealedRecord]
    ) -> BatchRecordForm:
        """The form of the records of an origin.

        Args:
            record: One of them; what differs does not count.
            seal: As every other record is sealed.
        """
        place, batch = SpoolPlace(_MARK, 1), {"": _MARK}
        sealed = seal(
            evolve(
                record,
                origin=origin,
                batch=batch,
                decision_id=_MARK,
                event_id=_MARK,
                spool=place,
                time=_TIME,
            )
        )
        assert not sealed.personal, "a batch's record hides nothing"
        rest, pieces = sealed.canonical.decode(), list[str]()
        for name, value in (
            ("batch", batch),
            ("decision_id", _MARK),
            ("event_id", _MARK),
            ("spool", place.form()),
            ("time", rfc3339(_TIME)),
        ):
            before, found, rest = rest.partition(f'"{name}":{encode(value).decode()}')
            assert found, f"a batch's record has no member {name}"
            pieces.append(f'{before}"{name}":')
        first, second, third, fourth, fifth = pieces
        return cls((first, second, third, fourth, fifth, rest))

    def canonical(
        self,
        batch: Mapping[str, Json],
        decision_id: str,
        event_id: str,
        place: SpoolPlace,
        time: float,
    ) -> bytes:
        """The record of one batch.

        Raises:
            Unrecordable: it is too large.
        """
        before, decision, event, spool, at, end = self.pieces
        where = f'{{"id":"{place.spool_id}","n":{place.n},"prev":"{place.prev.hex()}"}}'
        text = (
            f'{before}{write_plain(batch)}{decision}"{decision_id}"{event}"{event_id}"'
            f'{spool}{where}{at}"{rfc3339(time)}"{end}'
        ).encode()
        if len(text) > MAX_RECORD:
            raise Unrecordable(f"audit record of a batch: it is longer than {MAX_RECORD} bytes")
        return text
