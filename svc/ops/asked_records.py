"""``gate.v1.Admin/ShowRecords``: the audit log, shown to an operator who has no store at hand.

The log is looked through a part at a time, so that no question keeps the store
from others for long: the answer says where to go on.  That somebody read records
is a record itself.
"""

from __future__ import annotations

from attrs import define

from svc.audit.log import show
from svc.audit.log.selection import Selection
from svc.authority.state.recorder import Recorder
from svc.errors import Malformed
from svc.interfaces.store import IStore
from svc.model.audit.events import OPERATOR_READ
from svc.model.audit.record import Actor
from svc.ops.show import LogReader, ShownRecords, persons_called
from svc.proto.gate.v1 import admin_pb2 as pb

MOST = 1000
ROWS = 1024
"""Of the log, in one call: some ten milliseconds of the store's thread."""

_WORD = 256
_LARGEST = 2**63 - 1
_LATEST = 253_402_300_799.0
"""The last second of the year 9999."""


@define
class AskedRecords:
    """Shows records over the control socket and the admin lane.

    Attributes:
        rows: Of the log that one call looks through.
    """

    store: IStore
    recorder: Recorder
    rows: int = ROWS

    async def show(self, request: pb.ShowRecordsRequest, actor: Actor) -> pb.ShowRecordsResponse:
        """The records that are asked for, or a part of them.

        Raises:
            NoSuchRow: no such record or decision.
            Malformed: the request asks for more than it may.
        """
        _check(request)
        found = await self.store.read(
            "show records", lambda tx: _look(LogReader(tx, self.rows), request)
        )
        count = sum(one.get("event") != OPERATOR_READ.name for one in found.shown)
        if count:
            # Records of reading are not counted: two who follow the log would record each other.
            await self.store.run(
                "record a look at the log",
                lambda tx: self.recorder.append(tx, OPERATOR_READ, actor, details={"count": count}),
            )
        return pb.ShowRecordsResponse(
            records=[show.as_json(one).encode() for one in found.shown],
            end=found.end,
            more=found.more,
            before=found.before,
        )


def _check(request: pb.ShowRecordsRequest) -> None:
    words = (
        request.decision_id,
        request.person,
        request.resource,
        request.event,
        request.decision,
        request.session,
    )
    if any(len(word) > _WORD for word in words):
        raise Malformed(f"show records: a word is longer than {_WORD}")
    if max(request.seq, request.before, request.after) > _LARGEST:
        raise Malformed("show records: no record has so large a number")
    if not (0 <= request.since <= _LATEST and 0 <= request.until <= _LATEST):
        raise Malformed("show records: no such time")
    if not (request.decision_id or request.seq or 1 <= request.most <= MOST):
        raise Malformed(f"show records: ask for 1 to {MOST}")


def _look(reading: LogReader, request: pb.ShowRecordsRequest) -> ShownRecords:
    if request.decision_id:
        return reading.decided(request.decision_id)
    if request.seq:
        return reading.numbered(request.seq)
    wanted = Selection(
        persons=persons_called(reading.tx, request.person) if request.person else None,
        resource=request.resource or None,
        event=request.event or None,
        decision=request.decision or None,
        session=request.session or None,
        since=request.since if request.HasField("since") else None,
        until=request.until if request.HasField("until") else None,
    )
    if request.HasField("after"):
        return reading.after(wanted, request.after)
    return reading.newest(wanted, request.most, request.before)
