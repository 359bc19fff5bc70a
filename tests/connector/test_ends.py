"""What the target's side of a session tells the Proxy about its end."""

from __future__ import annotations

from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from svc.connector.ends import TargetSide
from svc.errors import SvcError
from svc.lanes.relay import Relay
from tests.connector.ends import EndTransport


class EndTests(SynchronousTestCase):
    def words(self, error: Exception, *, is_left: bool) -> list[str]:
        """Those of an end by *error*, after the person has said all, or before."""
        relay, told = Relay(), list[str]()
        side = relay.right = TargetSide(relay, "right")
        side.ends = told.append
        for one in (relay.left, relay.right):
            one.makeConnection(EndTransport(one))
        if is_left:
            relay.left.readConnectionLost()
        side.connectionLost(Failure(error))
        return told

    def test_the_target(self) -> None:
        """It is said of the target that it closed, unless the person had before."""
        for error in (ConnectionDone(), ConnectionLost()):
            self.assertEqual(self.words(error, is_left=False), ["target_closed"])
            self.assertEqual(self.words(error, is_left=True), [])

    def test_the_kind(self) -> None:
        """What dialed the target knows better, and says so whoever was first."""
        for is_left in (False, True):
            error = SvcError("the client is gone", reason="cancelled")
            self.assertEqual(self.words(error, is_left=is_left), ["cancelled"])
