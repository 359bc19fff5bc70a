"""A local endpoint that refuses, and one where nobody listens."""

from __future__ import annotations

from errno import ECONNREFUSED, ECONNRESET
from pathlib import Path
from typing import Any, cast

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectError
from twisted.internet.task import Clock
from twisted.internet.testing import MemoryReactor
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from svc.demo.endpoints import LocalEndpoints
from svc.errors import Unavailable

THERE = {"address": "127.0.0.1:10022"}


class LocalEndpointTests(SynchronousTestCase):
    def talking(self, number: int) -> Deferred[bytes]:
        """What comes of a conversation whose connection fails with this number."""
        reactor = MemoryReactor()
        local = LocalEndpoints(reactor, Clock(), Path("nowhere"))
        talking = Deferred.fromCoroutine(local.talk(THERE, b"open", 0))
        [(_, _, factory, _, _)] = reactor.tcpClients
        factory.clientConnectionFailed(cast(Any, None), Failure(ConnectError(number)))
        return talking

    def test_reset_at_once(self) -> None:
        """A session that is refused while its connection is made was refused, as any other."""
        self.assertEqual(self.successResultOf(self.talking(ECONNRESET)), b"")

    def test_nobody_there(self) -> None:
        """Where nobody listens, that is told."""
        self.failureResultOf(self.talking(ECONNREFUSED), Unavailable)
