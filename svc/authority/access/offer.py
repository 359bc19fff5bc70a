"""What a denial can be turned by: an approved request of the person, or one that could be made.

Asked only where the person may view the resource, so that nobody learns of one that they may not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import define, evolve

from svc.authority.access.approved import ApprovedRequests
from svc.interfaces.kinds import ServedKind
from svc.interfaces.policy import IPolicyEngine
from svc.interfaces.store import ITransaction
from svc.model.audit.state import StateEntry
from svc.model.cluster.resource import Resource
from svc.model.policy.access import AccessRequest
from svc.model.policy.requested import ApprovedAccess, request_command
from svc.model.session.request import SessionRequest
from svc.policy.requestable import would_turn
from svc.policy.requestable_reasons import requestable_reasons

_REASON = 200
"""Characters of policies' reasons that a refusal tells."""


@define(kw_only=True)
class AccessOffers:
    """Turns the denials of sessions.

    Attributes:
        max_secs: The longest access that can be asked for.
        on_event: Told ``used`` once a use is on record.
    """

    approvals: ApprovedRequests
    now: Callable[[], float]
    max_secs: int
    on_event: Callable[[str], object]

    def would_turn(self, engine: IPolicyEngine, asked: AccessRequest) -> bool:
        """Whether an approval would allow what was denied."""
        return would_turn(engine, asked, int(self.now()) + self.max_secs)

    def reason(self, engine: IPolicyEngine, asked: AccessRequest) -> str:
        """What the permits say of themselves by which an approval would allow what was denied."""
        found = requestable_reasons(engine, asked, int(self.now()) + self.max_secs)
        return "; ".join(reason for reason in found.values() if reason)[:_REASON]

    async def approved(
        self, person_id: str, resource: Resource, kind: ServedKind, request: SessionRequest
    ) -> ApprovedAccess | None:
        """The approval that covers a session, or None."""
        asked = kind.asked(request).all
        return await self.approvals.find(person_id, resource, request.action, asked)

    def use(self, tx: ITransaction, approved: ApprovedAccess | None) -> Sequence[StateEntry]:
        """Count one use of it in *tx*.  Raises Denied: there is none left."""
        return () if approved is None else self.approvals.use(tx, approved)

    async def used(self) -> None:
        """A use is on record."""
        self.on_event("used")
        await self.approvals.state_cache.catch_up()

    def hint(
        self, engine: IPolicyEngine, asked: AccessRequest, kind: ServedKind, request: SessionRequest
    ) -> str:
        """What to type to ask for it; with the parameters of the session where they matter."""
        facts = kind.asked(request).facts
        given = {name: facts.get(name, "") for name in request.parameters}
        bare = {name: value for name, value in asked.context.items() if name not in given}
        if self.would_turn(engine, evolve(asked, context=bare)):
            return request_command(request.resource)
        named = {name: value for name, value in given.items() if value}
        return request_command(request.resource, parameters=named)
