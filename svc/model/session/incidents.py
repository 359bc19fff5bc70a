"""How many incidents left sessions of one Proxy unconfirmed, and when that is too many (rule R25).

Pure.  Where a machine dies or a connection breaks, all the sessions that it carried are left
without their Connector's last checkpoint at once, so sessions are not what is counted.
"""

from __future__ import annotations

from attrs import define, field

INCIDENT_SECS = 300.0
"""Sessions whose grants end within so long of each other are one incident.  What dies at once had
grants that end within 120 s of each other, and a dead connection is noticed within 90 s."""

MOST_INCIDENTS = 5
"""In a day.  Connectors that live hand in what was left, and a new process of one is no incident of
the Proxy's: few are left, and they are hours apart.  A Proxy that keeps back checkpoints on purpose
has five such times a day, each on record."""

DAY_SECS = 86_400.0
"""How long an incident counts, and how long a Proxy with too many is distrusted."""


@define
class Incidents:
    """Of one Proxy."""

    _times: list[float] = field(factory=list, init=False)

    @property
    def count(self) -> int:
        """How many there were in the last day, when the newest was added."""
        return len(self._times)

    def add(self, ended_at: float) -> bool:
        """A session was left unconfirmed whose grant ended then.

        Returns:
            Whether there are too many now; they are then forgotten.
        """
        if any(abs(ended_at - one) <= INCIDENT_SECS for one in self._times):
            return False
        self._times = [one for one in self._times if one > ended_at - DAY_SECS]
        self._times.append(ended_at)
        if len(self._times) <= MOST_INCIDENTS:
            return False
        self._times.clear()
        return True
