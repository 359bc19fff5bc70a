"""``gate.v1.Control/Spooled``: rows of a Proxy's spool on their way to Authority's queue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attrs import evolve, frozen

from svc.errors import Malformed
from svc.messages.forms import UID, FieldTable, octets, word
from svc.model.audit.ledger import PersonalValue
from svc.model.audit.spool import SpoolRow
from svc.model.signing import MAX_SIGNATURE_BYTES
from svc.proto.gate.v1 import control_pb2 as pb

SPOOLED_METHOD = "/gate.v1.Control/Spooled"
MAX_ROWS = 256
"""Rows in one call."""

MAX_BATCH_BYTES = 1 << 20
"""Of the rows of one call; a batch ends before it, but holds one row at least."""

MAX_RECORD_BYTES = 1 << 17
_MAX_PERSONAL = 64
_REQUEST = FieldTable("spooled", spool_id=evolve(UID, called="spool"))
_ROW = FieldTable("spooled", key_id=evolve(word(64, empty=True), called="key"))
_PERSONAL = FieldTable("spooled", path=word(256), salt=octets(16), value=word(1 << 17))


@frozen
class SpoolState:
    """How far Authority has a spool.

    Attributes:
        received: All rows up to this one are durable in the store.
        covered: All up to this one are in the log under a signed head.
    """

    received: int
    covered: int


def batch(rows: Iterable[SpoolRow]) -> tuple[SpoolRow, ...]:
    """The first of *rows* that one call may carry."""
    taken: list[SpoolRow] = []
    size = 0
    for row in rows:
        size += row_size(row)
        if taken and (len(taken) == MAX_ROWS or size > MAX_BATCH_BYTES):
            break
        taken.append(row)
    return tuple(taken)


def row_size(row: SpoolRow) -> int:
    """How many bytes *row* takes in a message at most, but for paths."""
    values = (len(one.value) * (1 if one.value.isascii() else 4) for one in row.personal)
    return len(row.canonical) + sum(values) + 256


def spooled_message(spool_id: str, rows: Sequence[SpoolRow]) -> pb.SpooledRequest:
    """A batch as it travels; an empty one asks only."""
    return pb.SpooledRequest(
        spool_id=bytes.fromhex(spool_id),
        rows=[row_message(row) for row in rows],
    )


def row_message(row: SpoolRow) -> pb.SpooledRow:
    """One row, in the form on the wire and in a spool's files."""
    return pb.SpooledRow(
        record=row.canonical,
        signature=row.signature,
        key_id=row.key_id,
        personal=[
            pb.SpooledValue(path=one.path, salt=one.salt, value=one.value) for one in row.personal
        ],
    )


def read_spooled(message: pb.SpooledRequest) -> tuple[str, tuple[SpoolRow, ...]]:
    """The spool's id and its rows, bounded and not judged.

    Raises:
        Malformed: too many, or one is too large or of no form.
    """
    spool_id: str = _REQUEST.read_fields(message)["spool_id"]
    if len(message.rows) > MAX_ROWS:
        raise Malformed(f"spooled: more than {MAX_ROWS} rows")
    return spool_id, tuple(read_row(one) for one in message.rows)


def read_row(one: pb.SpooledRow) -> SpoolRow:
    """One row as it came, bounded and not judged.  Raises Malformed."""
    personal = (PersonalValue(each.path, each.salt, each.value) for each in one.personal)
    row = SpoolRow(
        canonical=one.record, personal=tuple(personal), key_id=one.key_id, signature=one.signature
    )
    check_row(row)
    return row


def state_message(state: SpoolState) -> pb.SpooledResponse:
    """How far Authority has it."""
    return pb.SpooledResponse(received=state.received, covered=state.covered)


def read_state(message: pb.SpooledResponse) -> SpoolState:
    """Authority's answer.

    Raises:
        Malformed: what is covered was never received.
    """
    if message.covered > message.received:
        raise Malformed("spooled: more rows are covered than received")
    return SpoolState(message.received, message.covered)


def check_row(row: SpoolRow) -> None:
    """Return if *row* may travel: asked before it enters a spool, and where it comes out.

    Raises:
        Malformed: something of it is missing or too long.
    """
    if not row.canonical or len(row.canonical) > MAX_RECORD_BYTES:
        raise Malformed("spooled: a record is empty or too long")
    if len(row.signature) > MAX_SIGNATURE_BYTES or len(row.personal) > _MAX_PERSONAL:
        raise Malformed("spooled: a signature is too long, or too many values are personal")
    if row_size(row) > MAX_BATCH_BYTES:
        raise Malformed("spooled: a row is too long")
    _ROW.read_fields(row)
    for one in row.personal:
        _PERSONAL.read_fields(one)
