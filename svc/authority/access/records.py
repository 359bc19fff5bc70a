"""The records of requests for access, each in the transaction of its change (rule R8)."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from svc.authority.state.recorder import Recorder, person
from svc.authority.state.tables import ACCESS_DECISIONS, ACCESS_REQUESTS
from svc.interfaces.store import ITransaction
from svc.model.audit.events import ACCESS_APPROVE, ACCESS_DENY, ACCESS_REQUEST, ACCESS_WITHDRAW
from svc.model.audit.record import Event, rfc3339
from svc.model.cluster.person import Person
from svc.model.policy.approval import decode_approval
from svc.model.policy.requested import KeptApproval, RequestedAccess, RequestState


@frozen
class Asker:
    """Who calls, authenticated, and over which Proxy with which source address.

    Attributes:
        proxy_id: Empty where no Proxy is in between.
        factor_at: When the person presented a second factor; None where nobody knows.
    """

    person: Person
    proxy_id: str = ""
    source_address: str = ""
    factor_at: float | None = None


@frozen
class AccessRecords:
    """Writes them; each call is made after the change, which is read back for the record."""

    recorder: Recorder

    def asked(self, tx: ITransaction, asker: Asker, row: RequestedAccess) -> None:
        """A person asked."""
        details = {
            "asked_reason": row.reason or None,
            "asked_secs": row.asked_secs,
            "asked_uses": row.uses,
            "text_sha256": row.text_sha256 or None,
            "ends_at": rfc3339(row.ends_at),
        }
        self._append(tx, ACCESS_REQUEST, asker, row, details)

    def withdrawn(self, tx: ITransaction, asker: Asker, row: RequestedAccess) -> None:
        """The same person took it back."""
        self._append(tx, ACCESS_WITHDRAW, asker, row, {})

    def decided(
        self, tx: ITransaction, asker: Asker, row: RequestedAccess, kept: KeptApproval
    ) -> None:
        """Another person decided."""
        is_approved = row.state is RequestState.APPROVED
        details: dict[str, Any] = {
            "person_id": row.person_id,
            "certificate_sha256": kept.certificate_sha256.hex(),
            "document_sha256": decode_approval(kept.payload).document_sha256.hex(),
        }
        if is_approved:
            details |= {"ends_at": rfc3339(row.ends_at), "text_sha256": row.text_sha256 or None}
        event = ACCESS_APPROVE if is_approved else ACCESS_DENY
        self._append(tx, event, asker, row, details, is_decided=True)

    def _append(
        self,
        tx: ITransaction,
        event: Event,
        asker: Asker,
        row: RequestedAccess,
        details: dict[str, Any],
        *,
        is_decided: bool = False,
    ) -> None:
        state = [ACCESS_REQUESTS.now(tx, row.id)]
        if is_decided:
            state.append(ACCESS_DECISIONS.now(tx, row.id))
        self.recorder.append(
            tx,
            event,
            person(asker.person.id),
            node_id=asker.proxy_id or None,
            resource_id=row.resource_id,
            resource_kind=row.kind,
            cedar_action=row.action,
            details={"access_request": row.id, "proxy_id": asker.proxy_id or None, **details},
            state=state,
        )
