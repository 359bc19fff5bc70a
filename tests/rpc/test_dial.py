"""What becomes of a dial that is given up."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectingCancelledError, DNSLookupError
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from svc.errors import Unavailable
from svc.rpc.channel import dial


@implementer(IStreamClientEndpoint)
class Endpoint:
    """Connects never; says *failure* when it is given up, at once or later."""

    def __init__(self, failure: Exception, is_late: bool = False) -> None:
        self.failure = failure
        self.is_late = is_late
        self.cancelled = 0

    def connect(self, factory: Any) -> Deferred[Any]:
        self.connecting: Deferred[Any] = Deferred(self.given_up)
        return self.connecting

    def given_up(self, connecting: Deferred[Any]) -> None:
        self.cancelled += 1
        if not self.is_late:
            connecting.errback(self.failure)


class GivenUpTests(SynchronousTestCase):
    def test_given_up(self) -> None:
        """Whatever the endpoint makes of being cancelled, a dial that is given up was cancelled."""
        for failure in (
            DNSLookupError(),
            ConnectingCancelledError(None),
            CancelledError(),
            Unavailable("refused"),
        ):
            for is_late in (False, True):
                endpoint = Endpoint(failure, is_late)
                dialing = Deferred.fromCoroutine(dial(endpoint, Clock()))
                self.assertNoResult(dialing)
                dialing.cancel()
                self.failureResultOf(dialing, CancelledError)
                self.assertEqual(endpoint.cancelled, 1)

    def test_failed(self) -> None:
        """A dial that fails by itself says that it could not connect, or why it was refused."""
        for failure, reason in (
            (DNSLookupError(), "cannot_connect"),
            (Unavailable("no", reason="address_out_of_reach"), "address_out_of_reach"),
        ):
            endpoint = Endpoint(failure)
            dialing = Deferred.fromCoroutine(dial(endpoint, Clock()))
            endpoint.connecting.errback(failure)
            self.assertEqual(self.failureResultOf(dialing, Unavailable).value.reason, reason)
