"""How policies are changed at one cluster, as its Authority's configuration says."""

from __future__ import annotations

from enum import Enum

from attrs import frozen

from svc.model.policy.access import EntityUid
from svc.model.policy.requests import user

SENSITIVE_APPROVALS = 2
LOCAL = "local:"


class Sensitive(Enum):
    """Why a change is security-sensitive; the words are shown to approvers and never change."""

    ADMINISTRATIVE = "administrative"
    FORBID_REMOVED = "forbid_removed"
    FORBID_CHANGED = "forbid_changed"
    ANY_PRINCIPAL = "any_principal"
    ANY_ACTION = "any_action"
    ANY_RESOURCE = "any_resource"
    BREAK_GLASS = "break_glass"

    @property
    def meaning(self) -> str:
        """What it says of a policy."""
        return _MEANINGS[self]


_MEANINGS = {
    Sensitive.ADMINISTRATIVE: "concerns administrative actions",
    Sensitive.FORBID_REMOVED: "is a forbid that is removed",
    Sensitive.FORBID_CHANGED: "is a forbid that is changed",
    Sensitive.ANY_PRINCIPAL: "becomes a permit for every principal",
    Sensitive.ANY_ACTION: "becomes a permit for every action",
    Sensitive.ANY_RESOURCE: "becomes a permit for every resource",
    Sensitive.BREAK_GLASS: "names a break-glass principal",
}


@frozen(kw_only=True)
class PolicyRules:
    """How many people approve a policy, and who gets in when it lets nobody in.

    Attributes:
        approvals: Of people other than the proposer; 0: none are needed.
        break_glass: Ids of people, and ``local:<uid>`` of users of the control socket.
    """

    approvals: int = 0
    break_glass: frozenset[str] = frozenset()

    def needed(self, *, is_sensitive: bool, by_person: bool) -> int:
        """How many approvals a proposal needs.

        An operator of the control socket is no person: nobody can tell whether they are the one
        who approves, so such a proposal needs an approval more (rule R17).
        """
        if not self.approvals:
            return 0
        least = SENSITIVE_APPROVALS if is_sensitive else 1
        return max(self.approvals, least) + (0 if by_person else 1)

    def may_break_glass(self, kind: str, id: str) -> bool:
        """Whether somebody is named there; *kind* as in records."""
        is_local = id.startswith(LOCAL)
        return id in self.break_glass and kind == ("operator" if is_local else "person")

    @property
    def principals(self) -> tuple[EntityUid, ...]:
        """Who is named there, as the policy names them."""
        return tuple(
            EntityUid("Operator", one) if one.startswith(LOCAL) else user(one)
            for one in sorted(self.break_glass)
        )
