"""Erases a personal value from the record of one request, and puts on record that it did."""

from __future__ import annotations

from attrs import define

from svc.audit.log.erased import erased_name
from svc.audit.log.verify import batch_at
from svc.authority.ingest.notes import checked_note
from svc.authority.state.recorder import Recorder
from svc.errors import Malformed, NoSuchRow
from svc.interfaces.store import IStore, ITransaction
from svc.model.audit.batch import is_batch, without
from svc.model.audit.events import REQUEST_ERASED
from svc.model.audit.record import Actor
from svc.model.canonical import decode
from svc.proto.gate.v1 import admin_pb2 as pb

_MAX_PATH = 256


@define
class RequestErasure:
    """What an operator erases; the log verifies as before, because the record names it."""

    store: IStore
    recorder: Recorder

    async def erase(self, request: pb.EraseValueRequest, actor: Actor) -> pb.EraseValueResponse:
        """Erase one value of one request.

        Raises:
            NoSuchRow: there is no such request, or it has no such value any more.
            AuditBroken: the batch is not what was signed.
        """
        note = checked_note(request.note)
        if not 0 < len(request.path) <= _MAX_PATH:
            raise Malformed("path: the name of the value as `audit show --long` writes it")

        def erase(tx: ITransaction) -> int:
            seq, index = request.seq, request.index
            found = tx.audit.rows(seq, 1)
            record = decode(found[0].canonical) if found and found[0].seq == seq else None
            if not isinstance(record, dict) or not is_batch(record):
                raise NoSuchRow(f"audit log: record {seq} is no batch of requests")
            beside = tx.audit.personal(seq, seq).get(seq, ())
            batch_at(found[0], record, beside)
            changed = without(beside, index, request.path)
            if changed is None:
                raise NoSuchRow(
                    f"audit log: request {seq}.{index} has no personal value {request.path}, or it "
                    "was erased before"
                )
            tx.audit.erase_personal(seq, changed)
            details = {"erased": [erased_name(seq, index, request.path)], "note": note}
            return self.recorder.append(tx, REQUEST_ERASED, actor, details=details).seq

        return pb.EraseValueResponse(seq=await self.store.run("erase a value", erase))
