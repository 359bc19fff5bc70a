"""Two Authorities on one database, and changes asked of both: who leads, and who did."""

from __future__ import annotations

import atexit
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from itertools import groupby
from typing import cast

from attrs import define, field
from twisted.trial.unittest import SynchronousTestCase

from svc.model.audit.events import GROUP_ADD
from svc.testing.gateway.processes import TIMEOUT_SECS, until
from tests.fault.appender import Appender
from tests.fault.cluster import Cluster
from tests.fault.tally import IS_LONG, Tally
from tests.fault.tcp import FaultProxy

NAMES = ("authority", "authority2")
_EPOCH = "SELECT epoch FROM lease"
LEASE_SECS = 3
"""So long that a slow machine does not take the lead from somebody by chance."""
TAKING = 40.0
"""A leader that is stopped in a transaction holds the others up for the 10 s it may take."""


@define(eq=False)
class Duel:
    """Each time one has lost the lead, it ends and is started again, as by a supervisor.

    Attributes:
        leader: Who leads; :meth:`taken_over` exchanges the two.
        epoch: Under which it writes.
        lost: How often the lead was lost.
    """

    cluster: Cluster
    leader: str = NAMES[0]
    other: str = NAMES[1]
    epoch: int = 0
    lost: int = 0
    appenders: dict[str, Appender] = field(factory=dict)

    @classmethod
    def made(cls, case: SynchronousTestCase) -> Duel:
        """One leads, the other stands by."""
        duel = cls(Cluster.on_postgres(case, NAMES, lease_secs=LEASE_SECS))
        cluster = duel.cluster
        cluster.start(NAMES[0])
        cluster.start(NAMES[1])
        cluster.standing_by(NAMES[1])
        duel.appenders = {name: cluster.appender(name, 1) for name in NAMES}
        duel.appenders[NAMES[0]].await_acked()
        duel.epoch = duel.seen_epoch()
        return duel

    def seen_epoch(self) -> int:
        """The one that the store holds."""
        [[(epoch,)]] = self.cluster.select(_EPOCH)
        found: int = epoch
        return found

    @property
    def way(self) -> FaultProxy:
        """From the leader to the database."""
        return self.cluster.ways[self.leader]

    @property
    def private(self) -> tuple[FaultProxy, FaultProxy]:
        """From the one that stands by to the leader, and back."""
        between = self.cluster.between
        return between[self.other, self.leader], between[self.leader, self.other]

    def taken_over(self, tally: Tally) -> None:
        """Wait until the other one writes: from now on it is the leader."""
        with tally.timed():
            until("a new epoch", lambda: self.seen_epoch() > self.epoch, TAKING)
            self.appenders[self.other].await_acked(seconds=TAKING)
        self.epoch += 1
        self.leader, self.other = self.other, self.leader
        self.lost += 1

    def came_back(self) -> None:
        """Wait until the one that led has noticed, has ended, and stands by in a new life."""
        self.cluster.child(self.other).wait()
        self.cluster.start(self.other, ready=False)
        self.cluster.standing_by(self.other)

    def writers(self) -> list[str]:
        """Who changed something, in the log's order; once for all that follow one another.

        What one that stands by says of itself is put on record by whoever leads.
        """
        changes = f"SELECT canonical FROM audit_log WHERE event = '{GROUP_ADD.name}' ORDER BY seq"
        (rows,) = self.cluster.select(changes)
        return [origin for origin, _ in groupby(json.loads(one)["origin"] for (one,) in rows)]

    def check(self) -> None:
        """One wrote at a time; nothing is lost; the log verifies for both."""
        self.cluster.check_rows()
        writers = self.writers()
        assert len(set(writers)) == min(2, self.lost + 1), writers
        assert len(writers) == self.lost + 1, f"{self.lost} changes, and wrote: {writers}"

    def verify(self) -> None:
        """By the command, with the anchor of each."""
        for name in NAMES:
            until(f"{name} has the newest heads", partial(self._verifies, name), TIMEOUT_SECS)

    def _verifies(self, name: str) -> bool:
        return "verified" in self.cluster.ran("audit", "verify", name=name).stdout


class _UntilExit:
    """Stands for a test where something is to last as long as the process."""

    def addCleanup(self, clean: Callable[..., object], *with_these: object) -> None:
        """Call it when the process ends."""
        atexit.register(clean, *with_these)


@cache
def standing() -> Duel:
    """The one of the short forms in this process; each leaves one leading, the other by."""
    return Duel.made(cast(SynchronousTestCase, _UntilExit()))


def side_by_side(
    case: SynchronousTestCase, lanes: int, rounds: int, act: Callable[[Duel, int], None]
) -> None:
    """So many rounds, dealt to duels that run side by side: most of a round is waiting."""
    duels = [Duel.made(case) for _ in range(lanes)] if IS_LONG else [standing()]

    def play(lane: int) -> None:
        for number in range(lane, rounds, lanes):
            act(duels[lane], number)
            duels[lane].check()
        duels[lane].verify()

    with ThreadPoolExecutor(lanes) as pool:
        for done in [pool.submit(play, lane) for lane in range(lanes)]:
            done.result()
