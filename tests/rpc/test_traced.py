"""The hooks around calls: what a server enters, what a channel adds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from google.protobuf.wrappers_pb2 import StringValue
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Denied
from svc.interfaces.rpc import RpcService, streaming, unary
from svc.rpc.client.channel import RpcChannel
from tests.rpc.memory import Pair

CURRENT: ContextVar[str] = ContextVar("current", default="none")


class HookTests(SynchronousTestCase):
    """A hook that keeps what it was told, in a context variable of the call's own."""

    def setUp(self) -> None:
        self.entered: list[tuple[str, dict[str, Any]]] = []
        self.left: list[type[BaseException] | None] = []
        self.gates: list[Deferred[None]] = []
        methods = {
            "Wait": unary(StringValue, self.wait),
            "Refuse": unary(StringValue, self.refuse),
            "Stay": streaming(self.stay),
        }
        self.pair = Pair([RpcService("t.S", methods)], traced=self.traced)

    @contextmanager
    def traced(self, method: str, metadata: Any) -> Iterator[None]:
        self.entered.append((method, dict(metadata)))
        token = CURRENT.set(str(metadata.get("id", "")))
        error: type[BaseException] | None = None
        try:
            yield
        except BaseException as e:
            error = type(e)
            raise
        finally:
            CURRENT.reset(token)
            self.left.append(error)

    async def wait(self, request: StringValue, call: Any) -> StringValue:
        before = CURRENT.get()
        gate: Deferred[None] = Deferred()
        self.gates.append(gate)
        await gate
        return StringValue(value=f"{before} {CURRENT.get()}")

    async def refuse(self, request: StringValue, call: Any) -> StringValue:
        raise Denied("no")

    async def stay(self, call: Any) -> None:
        await Deferred()

    def call(self, method: str, channel: RpcChannel | None = None, **options: Any) -> list[Any]:
        way = channel or self.pair.channel
        return self.pair.settle(
            way.unary(f"/t.S/{method}", StringValue(), StringValue, timeout=None, **options)
        )

    def test_each_call_has_its_own(self) -> None:
        """Two calls that wait at once each keep their own context, whichever goes on first."""
        first = self.call("Wait", metadata=[("id", "one")])
        second = self.call("Wait", metadata=[("id", "two")])
        self.assertEqual(CURRENT.get(), "none")
        for gate in reversed(self.gates):
            gate.callback(None)
            self.assertEqual(CURRENT.get(), "none")
        self.pair.turn()
        self.assertEqual([first[0].value, second[0].value], ["one one", "two two"])
        self.assertEqual(self.left, [None, None])

    def test_ends(self) -> None:
        """The hook is left with what became of the handler: a refusal, or its cancellation."""
        self.call("Refuse")
        stream = self.pair.channel.stream("/t.S/Stay")
        self.pair.turn()
        stream.cancel()
        self.pair.turn()
        self.assertEqual(
            [each and each.__name__ for each in self.left], ["Denied", "CancelledError"]
        )

    def test_only_what_is_served(self) -> None:
        """A method nobody serves enters no hook."""
        self.call("Nothing")
        self.assertEqual(self.entered, [])

    def test_headers(self) -> None:
        """A channel's headers go with each call, after its own; each call asks again."""
        numbers = iter(range(9))
        channel = RpcChannel(
            self.pair.client, authority="g", headers=lambda: [("id", str(next(numbers)))]
        )
        self.call("Refuse", channel)
        self.call("Refuse", channel, metadata=[("own", "x")])
        stream = channel.stream("/t.S/Stay")
        self.pair.turn()
        stream.cancel()
        self.pair.turn()
        told = [headers for _, headers in self.entered]
        self.assertEqual(told, [{"id": "0"}, {"own": "x", "id": "1"}, {"id": "2"}])

    def test_without(self) -> None:
        """Without hooks a call carries nothing, and is served."""
        self.call("Refuse")
        self.assertEqual(self.entered, [("/t.S/Refuse", {})])
        self.pair.factory.traced = None
        self.call("Refuse")
        self.assertEqual(len(self.entered), 1)
