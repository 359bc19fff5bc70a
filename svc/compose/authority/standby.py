"""A standby's policy: the leader's, one reload pass later.

It decides nothing by it.  But it says by which version it would
(``svc_policy_version_applied``), a text that it cannot load shows before it is
needed, and when it leads it begins with what it has.  It only reads: what is
unsigned is put on record by the one that leads.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define
from twisted.logger import Logger

from svc.authority.policy.active import PolicyInForce
from svc.authority.state.cache import ClusterStateCache
from svc.compose.authority.keys import KeyWiring
from svc.compose.authority.state import StateStartup
from svc.errors import MigrationsBroken, MigrationsPending, SvcError, UnknownApplied

_log = Logger(namespace="svc_authority")


@define
class Follower:
    """The reload pass of an Authority that does not lead.

    Attributes:
        stored: Told the version that the store says is in force.
        stopped_by: Told when the store is not of this build any more.
    """

    beginning: StateStartup
    state_cache: ClusterStateCache
    policy: PolicyInForce
    keys: KeyWiring
    stored: Callable[[int], object]
    stopped_by: Callable[[SvcError], object]
    _line: int = 0
    _begun: int = -1
    _reported: str = ""

    def begin_again(self) -> None:
        """The log continues from an older store: forget what belongs to the abandoned history.

        The next pass verifies every record from the first on, and goes by what the store holds.
        """
        self._line += 1
        self.policy.begin_again()

    async def follow(self) -> None:
        """One pass; what keeps it from its end is said once, and the next one tries again."""
        try:
            line = self._line
            if self._begun != line:
                await self.beginning.follow()
                self.policy.begin_again()
                self._begun = line
            reading = await self.state_cache.reload()
        except (MigrationsPending, UnknownApplied, MigrationsBroken) as refused:
            self.stopped_by(refused)
        except SvcError as failed:
            if failed.text != self._reported:
                _log.error("the leader's policy could not be applied", reason=failed.text)
            self._reported = failed.text
        else:
            self._reported = ""
            self.stored(reading.stored_policy)
            await self.policy.follow(self.state_cache.state)
            await self.keys.follow(leads=False)
