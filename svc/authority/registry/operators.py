"""Who may do what over the control socket (rule R19).

The caller is ``Operator::"local:<uid>"``, the uid asked of the kernel, and is
decided by the policy like everybody else.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define
from twisted.logger import Logger

from svc.authority.state.recorder import MAX_POLICIES, Recorder, operator
from svc.errors import Denied, Unauthenticated
from svc.interfaces.policy import IPolicyEngine
from svc.interfaces.rpc import IRpcCall, Peer
from svc.interfaces.store import IStore
from svc.model.audit.events import OPERATOR_REFUSED
from svc.model.audit.record import Actor
from svc.model.ids import random_id
from svc.model.policy.access import AccessRequest, Decision, EntityUid
from svc.model.policy.requests import context_at

_log = Logger(namespace="svc_authority")

EDIT_POLICY = "editPolicy"


@define
class Operators:
    """Decides administrative actions.

    Attributes:
        own_uid: The uid this process runs as.  It and root alone may connect;
            and they alone may set a policy while none is in force, so that a
            store whose policy cannot be loaded is not out of reach.
    """

    cluster: str
    own_uid: int
    engine: Callable[[], IPolicyEngine | None]
    store: IStore
    recorder: Recorder
    now: Callable[[], float]

    def admit(self, method: str, peer: Peer) -> None:
        """Refuse a connection of any other user of this machine."""
        if peer.uid not in (0, self.own_uid):
            raise Unauthenticated("only the owner of the control socket and root may use it")

    async def authorize(self, call: IRpcCall, action: str) -> Actor:
        """The operator behind this call, if the policy lets it do *action*.

        Raises:
            Denied: it does not; the refusal is on record by then.
        """
        uid = call.peer.uid
        if uid is None:
            raise Unauthenticated("the caller's user could not be determined")
        decision = self.decide(self.engine(), uid, action)
        if decision is None:
            allowed = action == EDIT_POLICY
        else:
            allowed = decision.allowed
        if not allowed:
            decision_id = await self._refused(uid, action, decision)
            raise Denied(
                f"the policy does not let this operator {action}",
                reason="denied",
                details={"decision_id": decision_id},
            )
        return operator(uid)

    def decide(self, engine: IPolicyEngine | None, uid: int, action: str) -> Decision | None:
        """The policy's answer; None while no policy is in force."""
        return None if engine is None else engine.decide(self.request(uid, action))

    def request(self, uid: int, action: str) -> AccessRequest:
        """What the policy is asked for an operator."""
        return AccessRequest(
            request_kind="admin",
            principal=EntityUid("Operator", f"local:{uid}"),
            action=action,
            resource=EntityUid("Cluster", self.cluster),
            context=context_at(self.now()),
        )

    async def _refused(self, uid: int, action: str, decision: Decision | None) -> str:
        _log.warn("operator refused", uid=uid, action=action)
        decision_id = random_id(self.recorder.entropy)
        await self.store.run(
            "refuse an operator",
            lambda tx: self.recorder.append(
                tx,
                OPERATOR_REFUSED,
                operator(uid),
                cedar_action=action,
                decision="deny" if decision is None else decision.decision,
                decision_id=decision_id,
                policies=() if decision is None else decision.policies[:MAX_POLICIES],
                policy_version=None if decision is None else decision.policy_version,
                request=None if decision is None else decision.request,
                reason="no_policy" if decision is None else "denied",
                details={"local_uid": uid},
            ),
        )
        return decision_id
