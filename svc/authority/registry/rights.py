"""Keeps people who manage people from getting rights that they do not have (rules R17, R18).

Whoever gives somebody a code, a token, an account at the provider or a membership can act as that
person, or lets a person act who is in their hand.  So through the admin lane nobody does that for
a person who then has an administrative right that they do not have themselves; and where policies
need approvals, nobody does it there for a person who may approve them: two people must not be one.
The control socket is the host's, and is not asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from attrs import evolve, frozen

from svc.errors import Denied
from svc.interfaces.policy import IPolicyEngine
from svc.interfaces.store import ITransaction
from svc.model.audit.record import Actor
from svc.model.cluster.person import Person, PersonState
from svc.model.policy.access import AccessRequest
from svc.model.policy.requests import may_administer, user
from svc.model.policy.rules import PolicyRules

APPROVE_POLICY = "approvePolicy"
RESCUES = frozenset({"editPolicy", "viewPolicy"})
"""What a break-glass principal may do whatever the policy says."""


class RightsRefused(Denied):
    """A change of people that would get its author rights, or an approver's credentials."""

    reason = "lifts_rights"


@frozen(kw_only=True)
class RightsCheck:
    """Says whether a person may give another person credentials or memberships.

    Attributes:
        engine: The policy in force over what a transaction holds, with these people as they are
            given; None while there is none.
        actions: The administrative ones.
    """

    cluster: str
    rules: PolicyRules
    engine: Callable[[ITransaction, Sequence[Person]], IPolicyEngine | None]
    actions: frozenset[str]
    now: Callable[[], float]

    def require(self, tx: ITransaction, actor: Actor, people: Iterable[Person]) -> None:
        """Refuse to let *actor* give these people credentials or memberships.

        Called before the change.

        Args:
            people: As they are after the change.

        Raises:
            RightsRefused: ``lifts_rights``, ``approver_protected``.
        """
        self._require(tx, actor, people, protect_approvers=True)

    def require_rights(self, tx: ITransaction, actor: Actor, people: Iterable[Person]) -> None:
        """The same for what lets nobody sign in as these people: approvers are as others.

        Raises:
            RightsRefused: ``lifts_rights``.
        """
        self._require(tx, actor, people, protect_approvers=False)

    def require_leaving(self, tx: ITransaction, actor: Actor, people: Iterable[Person]) -> None:
        """The same for people who leave groups: only rights that they get by it count.

        A policy may forbid something to the members of a group.

        Raises:
            RightsRefused: ``lifts_rights``, ``approver_protected``.
        """
        self._require(tx, actor, people, protect_approvers=True, only_gained=True)

    def _require(
        self,
        tx: ITransaction,
        actor: Actor,
        people: Iterable[Person],
        *,
        protect_approvers: bool,
        only_gained: bool = False,
    ) -> None:
        if actor.kind == "operator":
            return
        # A disabled person can be enabled by who manages people.
        after = [evolve(one, state=PersonState.ACTIVE) for one in people]
        if not after:
            return
        now, then = self.engine(tx, ()), self.engine(tx, after)
        had = self._ways if only_gained else _nothing
        if now is None or then is None:
            raise RightsRefused("no policy is in force; run the command on the Authority's host")
        # As before the change: else people who add themselves to a group would have its rights.
        lacking = {
            action: asked
            for action in sorted(self.actions)
            if (asked := self._ways(now, actor.id, action, refused=True))
        }
        for one in after:
            if protect_approvers and self.rules.approvals:
                may_break_glass = one.id in self.rules.break_glass and not only_gained
                approves = self._ways(then, one.id, APPROVE_POLICY)
                if may_break_glass or approves - had(now, one.id, APPROVE_POLICY):
                    raise _approver(one)
            for action, ways in lacking.items():
                more = self._ways(then, one.id, action) & ways
                if more and more - had(now, one.id, action):
                    raise _lifted(one, action)

    def _ways(
        self, engine: IPolicyEngine, id: str, action: str, *, refused: bool = False
    ) -> frozenset[str]:
        """In which circumstances somebody may do *action*, or with *refused* may not.

        A policy may want a second factor, or another fact that nobody knows beforehand.  So it is
        asked without any, with a second factor of this moment, and whether it may allow it ever.
        """
        plain = self._asked(id, action)
        if action in RESCUES and id in self.rules.break_glass:
            found = {"ever": True, "plain": True, "factor": True}
        else:
            ever = engine.may_ever(plain)
            found = {
                "ever": ever,
                "plain": ever and engine.decide(plain).allowed,
                "factor": ever and engine.decide(self._asked(id, action, self.now())).allowed,
            }
        return frozenset(way for way, may in found.items() if may is not refused)

    def _asked(self, id: str, action: str, factor_at: float | None = None) -> AccessRequest:
        return may_administer(user(id), action, self.cluster, self.now(), factor_at=factor_at)


def _nothing(engine: IPolicyEngine, id: str, action: str) -> frozenset[str]:
    return frozenset()


def _lifted(one: Person, action: str) -> RightsRefused:
    return RightsRefused(
        f"person {one.name}: may {action} after this change, and you may not; ask somebody who "
        f"may {action}, or run the command on the Authority's host"
    )


def _approver(one: Person) -> RightsRefused:
    return RightsRefused(
        f"person {one.name}: may approve or rescue policies after this change; as policies need "
        "approvals here, such a person gets credentials and groups only by a command on the "
        "Authority's host",
        reason="approver_protected",
    )
