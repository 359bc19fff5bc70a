"""Applies an operator's change at once instead of at the next reload pass."""

from __future__ import annotations

from attrs import define
from twisted.internet.defer import CancelledError
from twisted.logger import Logger

from svc.authority.policy.active import PolicyInForce
from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.cluster import ClusterState
from svc.runtime.services import BackgroundTasks

_log = Logger(namespace="svc_authority")


@define
class ChangeFollower:
    """Puts each change that this Authority made in force, one after another.

    While one is being compiled the next ones wait and are then taken together,
    so that a thousand resources added in a row cost a few engines, not a thousand.
    """

    policy: PolicyInForce
    state_cache: ClusterStateCache
    tasks: BackgroundTasks
    _is_due: bool = False
    _is_running: bool = False

    def changed(self, facts: ClusterState) -> None:
        """The cluster's facts are others than before; does not block."""
        self._is_due = True
        if not self._is_running:
            self._is_running = True
            self.tasks.spawn("following a change", self._follow())

    async def _follow(self) -> None:
        try:
            while self._is_due:
                self._is_due = False
                try:
                    await self.policy.follow(self.state_cache.state)
                except CancelledError:
                    raise  # we are stopped
                except Exception:
                    # What came meanwhile is still due; this change waits for the reload pass.
                    _log.failure("a change could not be applied")
        finally:
            self._is_running = False
