"""Requests under way in gated sessions, asked for again whenever the policy changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import define, field

from svc.errors import Denied
from svc.model.policy.access import ContextValue
from svc.model.policy.requested import ApprovedAccess

StillAllows = Callable[[str, Mapping[str, ContextValue], ApprovedAccess | None], bool]
"""Whether a request with this action, these facts, and the approval that it stood on, would be
allowed now; not counted."""


@define
class WatchedRequests:
    """Those of one session.

    Attributes:
        allows: Raises SvcError while no decision is possible: what is under way then goes on.
    """

    allows: StillAllows
    _watched: dict[object, tuple[str, Mapping[str, ContextValue], ApprovedAccess | None]] = field(
        factory=dict, init=False
    )

    def add(
        self, action: str, facts: Mapping[str, ContextValue], approved: ApprovedAccess | None
    ) -> Callable[[], None]:
        """Watch one, until what is returned is called."""
        key = object()
        self._watched[key] = (action, facts, approved)

        def over() -> None:
            self._watched.pop(key, None)

        return over

    def check(self) -> None:
        """Return if each may go on.

        Raises:
            Denied: one may not.
        """
        for action, facts, approved in self._watched.values():
            if not self.allows(action, facts, approved):
                raise Denied("the policy no longer allows a request", reason="policy_changed")
