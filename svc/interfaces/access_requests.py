"""The facet of requests for access and of what was decided about them."""

from __future__ import annotations

from zope.interface import Interface

from svc.model.policy.requested import KeptApproval, RequestedAccess


class IAccessRequests(Interface):
    """Requests, and at most one decision about each."""

    def put(request: RequestedAccess) -> None:
        """Keep a request, in the place of the row of its id if there is one."""

    def get(request_id: str) -> RequestedAccess | None:
        """One request."""

    def unexpired(at: float) -> tuple[RequestedAccess, ...]:
        """Every request that has not ended at *at*, by id."""

    def of(person_id: str, at: float) -> tuple[RequestedAccess, ...]:
        """Those of one person, the oldest first."""

    def decide(approval: KeptApproval) -> None:
        """Keep a decision.  Raises AlreadyExists: the request has one."""

    def decision(request_id: str) -> KeptApproval | None:
        """The decision about a request."""

    def decisions(at: float) -> tuple[KeptApproval, ...]:
        """Every decision that has not ended at *at*, by request."""

    def forget(until: float, texts_until: float) -> None:
        """Delete every request that ended before *until*, with its decision.

        Of those that ended before *texts_until* the sealed text is emptied.
        """
