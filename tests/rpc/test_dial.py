"""What becomes of a dial that is given up."""

from __future__ import annotations

from typing import Any

from OpenSSL import SSL
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.error import ConnectingCancelledError, ConnectionDone, DNSLookupError
from twisted.internet.interfaces import IOpenSSLClientConnectionCreator, IStreamClientEndpoint
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from svc.errors import Unavailable
from svc.pki.handshake import Contexts
from svc.pki.tls import H2
from svc.rpc.client.channel import dial

ALERT = b"\x15\x03\x03\x00\x02\x02\x28"
"""TLS: fatal, handshake_failure."""


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


class Connected:
    """Connects at once, with TLS over a transport of which nothing comes but what a test feeds."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.transport = StringTransport()

    def connect(self, factory: Any) -> Deferred[Any]:
        context = Contexts(None, server=False, alpn=H2, mode=SSL.VERIFY_NONE)

        class Unjudged:
            def clientConnectionForTLS(self, tls: Any) -> Any:
                return context.connection(None)

        creator = implementer(IOpenSSLClientConnectionCreator)(Unjudged)()
        self.tls: Any = TLSMemoryBIOFactory(creator, True, factory, self.clock).buildProtocol(None)
        self.tls.makeConnection(self.transport)
        return succeed(self.tls.wrappedProtocol)


class FailedHandshakeTests(SynchronousTestCase):
    def test_closes_at_once(self) -> None:
        """A failed TLS handshake closes the transport below, and nothing registered holds that up.

        A byte stream inside a call closes only once it has no producer.
        """
        clock = Clock()
        endpoint: Any = Connected(clock)
        dialing = Deferred.fromCoroutine(dial(endpoint, clock))
        endpoint.tls.dataReceived(ALERT)
        self.assertTrue(endpoint.transport.disconnecting)
        self.assertIsNone(endpoint.transport.producer)
        endpoint.tls.connectionLost(Failure(ConnectionDone()))
        refused = self.failureResultOf(dialing, Unavailable).value
        self.assertEqual(refused.reason, "handshake_failed")
        self.assertEqual(clock.getDelayedCalls(), [])


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
