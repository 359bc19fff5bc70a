"""What a stock client sees of a Proxy that leaves."""

from __future__ import annotations

import signal
from queue import SimpleQueue
from typing import Any

import grpc
from twisted.trial.unittest import SynchronousTestCase

from svc.testing.processes import until
from svc.testing.settings import PROXY
from tests.interop import testing_pb2 as pb
from tests.interop.stage import ada, credentials, gateway
from tests.interop.stock_client import Cases, payload


def asking(size: int) -> Any:
    parameters = [pb.ResponseParameters(size=size)]
    return pb.StreamingOutputCallRequest(response_parameters=parameters, payload=payload(size))


class LeavingTests(SynchronousTestCase):
    def test_drain(self) -> None:
        """A stopping Proxy lets a call go on to its end, takes none any more, and ends well."""
        asked = {"address": gateway().public, **credentials(ada().directory)}
        cases = Cases(asked)
        self.addCleanup(cases.channel.close)
        requests: SimpleQueue[Any] = SimpleQueue()
        self.addCleanup(requests.put, None)
        requests.put(asking(1))
        call = cases.duplex(iter(requests.get, None))
        self.assertEqual(len(next(call).payload.body), 1)
        child = gateway().child(PROXY)
        child.signal(signal.SIGTERM)
        self.addCleanup(gateway().restart, PROXY)

        def is_refused() -> bool:
            try:
                cases.unary("EmptyCall", pb.Empty(), pb.Empty)(pb.Empty(), timeout=5)
            except grpc.RpcError as error:
                return error.code() is grpc.StatusCode.UNAVAILABLE
            return False

        until("no further call", is_refused, alive=[child])
        requests.put(asking(300_000))
        self.assertEqual(len(next(call).payload.body), 300_000)
        requests.put(None)
        self.assertEqual(list(call), [])
        self.assertEqual(child.wait(), 0)
