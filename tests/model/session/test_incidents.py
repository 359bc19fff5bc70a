"""When sessions that were left unconfirmed are too many incidents."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.model.session.incidents import DAY_SECS, INCIDENT_SECS, MOST_INCIDENTS, Incidents


class IncidentTests(SynchronousTestCase):
    @given(st.lists(st.floats(0, INCIDENT_SECS), min_size=1, max_size=50))
    def test_all_at_once(self, times: list[float]) -> None:
        """All that dies at once is one incident, or two at most, however much it is."""
        incidents = Incidents()
        told = [incidents.add(1e9 + at) for at in times]
        self.assertFalse(any(told))
        self.assertLessEqual(incidents.count, 2)

    def test_one_after_the_other(self) -> None:
        """The sixth of a day is one too many; they are counted from nothing then."""
        incidents, apart = Incidents(), INCIDENT_SECS + 1
        told = [incidents.add(1e9 + n * apart) for n in range(2 * MOST_INCIDENTS + 2)]
        often = [False] * MOST_INCIDENTS + [True]
        self.assertEqual(told, often * 2)

    def test_yesterday(self) -> None:
        """What is a day old does not count."""
        incidents = Incidents()
        told = [incidents.add(1e9 + n * DAY_SECS / MOST_INCIDENTS) for n in range(40)]
        self.assertFalse(any(told))
