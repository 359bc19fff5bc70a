"""Calls between our own ends on memory transports."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from google.protobuf.wrappers_pb2 import StringValue
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from svc.errors import Denied, Fault, SvcError, Unprocessed
from svc.interfaces.rpc import IRpcCall, IRpcChannel, IRpcStream, RpcService, streaming, unary
from svc.rpc.client.channel import TURN_SECONDS
from svc.rpc.keepalive import PERMITTED_SECONDS, TICK_SECS, CommonTicks, Keepalive
from svc.rpc.server.call import ServerCall
from svc.rpc.shutdown import AWAY_SECONDS
from svc.wire.limits import WireLimits
from tests.rpc.memory import Pair


async def greet(request: Any, call: Any) -> Any:
    return StringValue(value=f"hello {request.value}")


async def refuse(request: Any, call: Any) -> StringValue:
    raise Denied("ünicode %\r\n refusal", reason="no_such_luck", details={"decision": "d1"})


async def crash(request: Any, call: Any) -> StringValue:
    raise RuntimeError("a secret")


async def lack(request: Any, call: Any) -> StringValue:
    import_module("nobody_installs_this")
    return StringValue()


async def echo(call: Any) -> None:
    while (message := await call.receive()) is not None:
        await call.send(message)


async def tell(call: Any) -> None:
    call.answer_with(initial=[("x-first", "a b")], trailing=[("x-last-bin", b"\0\xff")])
    await call.send(b"")


async def tell_and_refuse(call: Any) -> None:
    call.answer_with(initial=[("x-first", "a b")], trailing=[("x-last-bin", b"\0\xff")])
    raise Denied("no")


class CallsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.calls: list[ServerCall] = []
        self.ends: list[SvcError] = []
        self.left: list[Any] = []
        self.pair = Pair(
            [
                RpcService(
                    "test.Echo",
                    {
                        "Greet": unary(StringValue, greet),
                        "Refuse": unary(StringValue, refuse),
                        "Crash": unary(StringValue, crash),
                        "Lack": unary(StringValue, lack),
                        "Both": streaming(echo),
                        "Short": streaming(echo),
                        "Stall": streaming(self.stall),
                        "Pour": streaming(self.pour),
                        "Leave": streaming(self.leave),
                        "Tell": streaming(tell),
                        "TellAndRefuse": streaming(tell_and_refuse),
                        "Follow": streaming(self.stall),
                    },
                    lasting=frozenset({"Follow"}),
                    longest={"Short": 1000},
                )
            ],
            limits=WireLimits(max_streams=4),
        )

    def test_not_one_request(self) -> None:
        """A unary method takes one message: with none, or two, its handler is never asked."""
        for messages in ([], [b"", b""], [b""] * 5):
            stream = self.pair.channel.stream("/test.Echo/Greet")
            for message in messages:
                stream.write([message], len(message))
            stream.end()
            answer = Deferred.fromCoroutine(stream.receive())
            self.pair.turn()
            refused = self.failureResultOf(answer, SvcError).value
            self.assertEqual(refused.fault, Fault.UNIMPLEMENTED, messages)
            self.assertEqual(refused.reason, "not_one_request")

    def test_no_end(self) -> None:
        """Who sends its one message and never ends its half is waited for as for the message."""
        stream = self.pair.channel.stream("/test.Echo/Greet")
        message = StringValue(value="x" * 100_000).SerializeToString()
        stream.write([message], len(message))
        answer = Deferred.fromCoroutine(stream.receive())
        self.pair.turn()
        self.assertNoResult(answer)
        self.pair.clock.advance(31)
        self.pair.turn()
        refused = self.failureResultOf(answer, SvcError).value
        self.assertEqual(refused.fault, Fault.DEADLINE)
        self.assertEqual(self.pair.server.wire.streams, {})

    def test_longest(self) -> None:
        """A method's caller may send less than the listener takes."""
        for size, fault in ((1000, None), (1001, Fault.EXHAUSTED)):
            stream = self.pair.channel.stream("/test.Echo/Short")
            stream.write([bytes(size)], size)
            answer = Deferred.fromCoroutine(stream.receive())
            self.pair.turn()
            if fault is None:
                self.assertEqual(self.successResultOf(answer), bytes(size))
                stream.cancel()
            else:
                refused = self.failureResultOf(answer, SvcError).value
                self.assertEqual((refused.fault, refused.reason), (fault, "message_too_long"))

    async def stall(self, call: Any) -> None:
        self.calls.append(call)
        call.on_cancel(self.ends.append)
        await Deferred()

    async def pour(self, call: Any) -> None:
        self.sent = 0
        for _ in range(200):
            await call.send(b"x" * 65536)
            self.sent += 1

    def unary(self, method: Any, **options: Any) -> Any:
        options.setdefault("timeout", None)
        return self.pair.settle(
            self.pair.channel.unary(
                f"/test.Echo/{method}", StringValue(value="you"), StringValue, **options
            )
        )

    def refusal(self, results: Any) -> SvcError:
        [failure] = results
        failure.trap(SvcError)
        refusal: SvcError = failure.value
        return refusal

    def test_ends_provide_their_interfaces(self) -> None:
        """Calls, streams and channels are what the interface page says."""
        stream = self.pair.channel.stream("/test.Echo/Stall")
        self.pair.turn()
        verifyObject(IRpcStream, stream)
        verifyObject(IRpcChannel, self.pair.channel)
        verifyObject(IRpcCall, self.calls[0])

    def test_unary(self) -> None:
        """A call is answered."""
        [answer] = self.unary("Greet")
        self.assertEqual(answer.value, "hello you")
        self.assertEqual(self.pair.channel.open_streams, 0)

    def test_refusal_keeps_its_reason(self) -> None:
        """A refusal arrives with fault, sentence, reason word and details."""
        refusal = self.refusal(self.unary("Refuse"))
        self.assertEqual(refusal.fault, Fault.DENIED)
        self.assertEqual(refusal.text, "ünicode %\r\n refusal")
        self.assertEqual(refusal.reason, "no_such_luck")
        self.assertEqual(refusal.details, {"decision": "d1"})

    def test_crash_tells_nothing(self) -> None:
        """What went wrong inside is logged here and not told to the peer."""
        refusal = self.refusal(self.unary("Crash"))
        self.assertEqual((refusal.fault, refusal.reason), (Fault.INTERNAL, "internal"))
        self.assertNotIn("secret", refusal.text)
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)

    def test_a_package_that_is_not_installed(self) -> None:
        """An environment of an older release may lack one: it is named, with what to do."""
        refusal = self.refusal(self.unary("Lack"))
        self.assertEqual((refusal.fault, refusal.reason), (Fault.INTERNAL, "module_missing"))
        self.assertIn("no module nobody_installs_this", refusal.text)
        self.assertEqual(len(self.flushLoggedErrors(ModuleNotFoundError)), 1)

    def test_unknown_method(self) -> None:
        """A method nobody serves is UNIMPLEMENTED."""
        self.assertEqual(self.refusal(self.unary("Nothing")).fault, Fault.UNIMPLEMENTED)

    def test_long_messages_both_ways(self) -> None:
        """Messages longer than any window pass whole and in order."""

        async def talk() -> Any:
            stream = self.pair.channel.stream("/test.Echo/Both")
            sizes = []
            for size in (0, 1, 65_535, 271_828, 3_000_000):
                sending = Deferred.fromCoroutine(stream.send(b"x" * size))
                sizes.append(len(await stream.receive() or b""))
                await sending
            stream.end()
            return sizes, await stream.receive()

        [answer] = self.pair.settle(talk(), 400)
        self.assertEqual(answer, ([0, 1, 65_535, 271_828, 3_000_000], None))

    def test_message_past_the_limit(self) -> None:
        """A message past the limit ends its call, not the connection."""

        async def talk() -> None:
            stream = self.pair.channel.stream("/test.Echo/Both")
            await stream.send(b"x" * (5 << 20))
            await stream.receive()

        refusal = self.refusal(self.pair.settle(talk(), 100))
        self.assertEqual(refusal.reason, "message_too_long")
        self.assertEqual(self.unary("Greet")[0].value, "hello you")

    def test_deadline_ends_both_ends(self) -> None:
        """A deadline travels: the server's handler is cancelled and the caller hears of it."""
        stream = self.pair.channel.stream("/test.Echo/Stall", timeout=2)
        received = self.pair.settle(stream.receive())
        self.assertAlmostEqual(self.calls[0].deadline, 2.0)
        self.pair.clock.advance(2)
        self.pair.turn()
        self.assertEqual(self.refusal(received).fault, Fault.DEADLINE)
        self.assertEqual([end.fault for end in self.ends], [Fault.DEADLINE])
        self.assertEqual(self.pair.clock.getDelayedCalls(), [])

    def test_caller_cancels(self) -> None:
        """A cancelled call cancels what serves it."""
        stream = self.pair.channel.stream("/test.Echo/Stall")
        closed = stream.closed
        self.pair.turn()
        stream.cancel("changed_my_mind")
        self.pair.turn()
        self.assertEqual(self.failureResultOf(closed, SvcError).value.reason, "changed_my_mind")
        self.assertEqual([end.fault for end in self.ends], [Fault.CANCELLED])
        self.assertEqual(len(self.pair.server.wire.streams), 0)

    def test_reader_that_stops_holds_its_sender_only(self) -> None:
        """A reader that does not read bounds what is sent to it; other calls go on."""
        stream = self.pair.channel.stream("/test.Echo/Pour")
        self.pair.turn(100)
        stalled_at = self.sent
        self.assertLess(stalled_at * 65536, 1 << 20)
        self.pair.turn(50)
        self.assertEqual(self.sent, stalled_at)
        self.assertEqual(self.unary("Greet")[0].value, "hello you")

        async def drain() -> Any:
            count = 0
            while await stream.receive() is not None:
                count += 1
            return count

        self.assertEqual(self.pair.settle(drain(), 400), [200])

    def test_past_the_stream_limit(self) -> None:
        """A call past the peer's limit waits for its turn, and has it once another is over."""
        first, *_ = [self.pair.channel.stream("/test.Echo/Stall") for _ in range(4)]
        self.pair.turn()
        waiting = self.unary("Greet")
        self.assertEqual((waiting, len(self.calls)), ([], 4))
        self.assertEqual(self.pair.channel.open_streams, 5)
        first.cancel()
        self.pair.turn()
        self.assertEqual(waiting[0].value, "hello you")
        self.assertEqual(self.pair.channel.open_streams, 3)

    def test_no_turn(self) -> None:
        """One that has no turn in time is refused, and was never begun."""
        for _ in range(4):
            self.pair.channel.stream("/test.Echo/Stall")
        waiting = self.unary("Greet")
        self.pair.clock.advance(TURN_SECONDS)
        self.pair.turn()
        refusal = self.refusal(waiting)
        self.assertEqual((refusal.fault, refusal.reason), (Fault.EXHAUSTED, "too_many_streams"))
        self.assertEqual(len(self.calls), 4)

    def test_lost_while_waiting(self) -> None:
        """One that waits when the connection is lost fails with it, and with its deadline."""
        for _ in range(4):
            self.pair.channel.stream("/test.Echo/Stall")
        short = self.unary("Greet", timeout=1)
        waiting = self.unary("Greet")
        self.pair.clock.advance(1)
        self.pair.turn()
        self.assertEqual(self.refusal(short).fault, Fault.DEADLINE)
        self.pair.client_side.abortConnection()
        self.pair.server_side.abortConnection()
        self.pair.turn()
        refusal = self.refusal(waiting)
        self.assertIsInstance(refusal, Unprocessed)
        self.assertEqual(refusal.reason, "lost")
        with self.assertRaises(Unprocessed):
            self.pair.channel.stream("/test.Echo/Greet")

    def test_metadata_of_the_answer(self) -> None:
        """A server's metadata comes before its first message and with its status."""

        async def talk(method: str) -> Any:
            stream = self.pair.channel.stream(f"/test.Echo/{method}")
            stream.end()
            try:
                await stream.receive()
                await stream.receive()
            except SvcError:
                pass
            return stream.initial_metadata, stream.trailing_metadata

        [(initial, trailing)] = self.pair.settle(talk("Tell"))
        self.assertEqual((initial, trailing), ({"x-first": "a b"}, {"x-last-bin": b"\0\xff"}))
        [(initial, trailing)] = self.pair.settle(talk("TellAndRefuse"))
        self.assertEqual(initial, {})
        self.assertEqual(trailing, {"x-first": "a b", "x-last-bin": b"\0\xff"})

    def test_drain(self) -> None:
        """A draining server lets open calls end, takes no new one, then closes."""
        stream = self.pair.channel.stream("/test.Echo/Both")
        reasons: list[str] = []
        self.pair.channel.on_close(reasons.append)
        self.pair.turn()
        drained = self.pair.settle(self.pair.factory.drain(30))
        self.assertEqual(drained, [])
        self.assertIsNone(self.pair.factory.buildProtocol(None))
        with self.assertRaises(SvcError):
            self.pair.channel.stream("/test.Echo/Both")
        self.assertEqual(self.pair.settle(echo_once(stream)), [b"still here"])
        self.pair.turn(60)
        self.assertEqual(drained, [None])
        self.assertEqual(reasons, ["going_away"])

    def test_drain_of_a_silent_caller(self) -> None:
        """A caller that does not answer is not waited for longer than a moment."""
        self.pair.server.drain()
        self.assertFalse(self.pair.server.wire.is_going_away)
        self.pair.clock.advance(AWAY_SECONDS)
        self.assertTrue(self.pair.server.wire.is_going_away)
        self.assertEqual(self.pair.server.end_reason, "drained")

    def test_call_under_way_when_a_drain_begins(self) -> None:
        """A call that crosses the server's notice is served."""
        answer = Deferred.fromCoroutine(
            self.pair.channel.unary(
                "/test.Echo/Greet", StringValue(value="you"), StringValue, timeout=5
            )
        )
        drained = self.pair.settle(self.pair.factory.drain(30))
        self.assertEqual(self.successResultOf(answer).value, "hello you")
        self.pair.turn(60)
        self.assertEqual(drained, [None])

    def test_caller_leaves(self) -> None:
        """A caller that says it leaves has its calls served; then the server closes."""
        stream = self.pair.channel.stream("/test.Echo/Both")
        self.pair.turn()
        self.pair.client.wire.go_away()
        self.pair.client.schedule()
        self.pair.turn()
        self.assertIs(self.pair.server.end_reason, None)
        self.assertEqual(self.pair.settle(echo_once(stream)), [b"still here"])
        self.pair.turn()
        self.assertEqual(self.pair.server.end_reason, "going_away")

    def test_drained_by_the_caller(self) -> None:
        """A caller that drains begins no call, has those under way served, then closes."""
        channel, reasons = self.pair.channel, list[str]()
        stream = channel.stream("/test.Echo/Both")
        channel.on_close(reasons.append)
        self.pair.turn()
        channel.drain()
        channel.drain()
        with self.assertRaises(Unprocessed):
            channel.stream("/test.Echo/Both")
        self.assertEqual(self.pair.settle(echo_once(stream)), [b"still here"])
        self.pair.turn()
        self.assertEqual(reasons, ["going_away"])

    def test_drain_has_an_end(self) -> None:
        """Calls that outlast the drain are broken off."""
        stream = self.pair.channel.stream("/test.Echo/Stall")
        received = self.pair.settle(stream.receive())
        drained = self.pair.settle(self.pair.factory.drain(5))
        self.pair.clock.advance(5)
        self.pair.turn()
        self.assertEqual(drained, [None])
        self.assertEqual(self.refusal(received).fault, Fault.UNAVAILABLE)

    def test_what_lasts_is_ended_by_a_drain(self) -> None:
        """A call without an end of its own does not hold a drain; its caller hears why."""
        before = self.pair.channel.stream("/test.Echo/Follow")
        received = self.pair.settle(before.receive())
        own = self.pair.channel.stream("/test.Echo/Both")
        self.pair.turn()
        drained = Deferred.fromCoroutine(self.pair.factory.drain(30))
        crossing = self.pair.channel.stream("/test.Echo/Follow")
        crossed = self.pair.settle(crossing.receive())
        self.assertEqual(self.refusal(crossed).reason, "draining")
        # What the caller had begun is served with what lasts still there.
        self.pair.turn(60)
        self.assertEqual((received, self.ends), ([], []))
        self.assertEqual(self.pair.settle(echo_once(own)), [b"still here"])
        self.pair.turn(60)
        self.assertEqual(self.refusal(received).reason, "draining")
        self.assertEqual([each.reason for each in self.ends], ["draining"])
        self.pair.turn(60)
        self.successResultOf(drained)

    def gone(self, stream: Any) -> list[str]:
        """What is told once nothing is held for the latest call any more."""
        told: list[str] = []
        self.left[-1].on_gone(lambda: told.append("gone"))
        self.assertEqual((told, stream.closed.called), ([], False))
        return told

    def unread(self) -> Any:
        """A call whose handler returned while its caller has read nothing."""
        stream: Any = self.pair.channel.stream("/test.Echo/Leave")
        stream.closed.addErrback(lambda _: None)
        stream.end()
        self.pair.turn()
        return stream

    async def leave(self, call: Any) -> None:
        self.left.append(call)
        for _ in range(6):
            await call.send(b"x" * 65536)

    def test_gone_when_read(self) -> None:
        """A call whose handler is done is gone once its caller has read the rest."""
        stream = self.unread()
        told = self.gone(stream)
        for _ in range(6):
            self.pair.settle(stream.receive())
        self.assertEqual(told, ["gone"])
        self.left[-1].on_gone(lambda: told.append("at once"))
        self.assertEqual(told, ["gone", "at once"])

    def test_gone_with_its_caller(self) -> None:
        """A call that is broken off, or whose connection is lost, is gone then."""
        stream = self.unread()
        told = self.gone(stream)
        stream.cancel()
        self.pair.turn()
        self.assertEqual(told, ["gone"])
        told = self.gone(self.unread())
        self.pair.client_side.abortConnection()
        self.pair.turn()
        self.assertEqual(told, ["gone"])
        self.left[-1].on_gone(lambda: told.append("late"))
        self.assertEqual(told, ["gone", "late"])

    def test_lost_connection(self) -> None:
        """A lost connection fails every open call and tells the channel's owner."""
        stream = self.pair.channel.stream("/test.Echo/Stall")
        received = self.pair.settle(stream.receive())
        reasons: list[str] = []
        self.pair.channel.on_close(reasons.append)
        self.pair.client_side.abortConnection()
        self.pair.server_side.abortConnection()
        self.pair.turn()
        self.assertEqual(self.refusal(received).fault, Fault.UNAVAILABLE)
        self.assertEqual([end.fault for end in self.ends], [Fault.UNAVAILABLE])
        self.assertEqual(reasons, ["lost"])

    def test_admission_at_every_call(self) -> None:
        """Admission runs when each call starts, with the method and the peer."""
        seen = []

        def admit(method: Any, peer: Any) -> None:
            seen.append((method, peer.tls))
            if len(seen) > 1:
                raise SvcError("expired", reason="expired", fault=Fault.UNAUTHENTICATED)

        pair = Pair([RpcService("t.T", {"Greet": unary(StringValue, greet)})], admit=admit)
        self.pair = pair
        channel = pair.channel
        first = pair.settle(channel.unary("/t.T/Greet", StringValue(), StringValue, timeout=1))
        second = pair.settle(channel.unary("/t.T/Greet", StringValue(), StringValue, timeout=1))
        self.assertEqual(first[0].value, "hello ")
        self.assertEqual(self.refusal(second).fault, Fault.UNAUTHENTICATED)
        self.assertEqual(seen, [("/t.T/Greet", False)] * 2)


async def echo_once(stream: Any) -> Any:
    await stream.send(b"still here")
    answer = await stream.receive()
    stream.end()
    await stream.receive()
    return answer


_PING = b"\0\0\x08\x06\0"
"""How the frame of a ping begins, and not that of an answer to one."""


class KeepaliveTests(SynchronousTestCase):
    def test_too_many_pings(self) -> None:
        """A caller that is told so pings half as often on its next connection, within bounds."""
        pings = Keepalive(2, 3)
        pair = Pair([], keepalive=pings)
        for _ in range(8):
            pair.clock.advance(2)
            pair.turn()
        self.assertIn("too_many_pings", [what for what, _ in pair.told])
        self.assertEqual((pings.interval, pair.server.end_reason), (4, "too_many_pings"))
        for _ in range(20):
            pings.slow_down()
        self.assertEqual(pings.interval, PERMITTED_SECONDS)

    def test_permitted(self) -> None:
        """A keepalive of our roles, as it is by default, is borne."""
        pair = Pair([], keepalive=Keepalive(15, 10))
        for _ in range(100):
            pair.clock.advance(15)
            pair.turn()
        self.assertIs(pair.server.end_reason, None)

    def _pings(self, pair: Pair, seconds: int) -> tuple[int, int]:
        """Of the caller and of the server, both hearing each other for so long."""
        sides, counts = (pair.client_side, pair.server_side), [0, 0]
        for _ in range(10 * seconds):
            pair.clock.advance(0.1)
            for n, side in enumerate(sides):
                counts[n] += b"".join(side.stream).count(_PING)
            pair.turn(2)
        return counts[0], counts[1]

    def test_one_of_two_pings(self) -> None:
        """Where both ends look for signs of life, the dialer asks; either finds silence."""
        pair = Pair([], keepalive=Keepalive(10, 3))
        pair.server.keep_alive(Keepalive(10, 3))
        by_caller, by_server = self._pings(pair, 90)
        self.assertEqual(by_server, 0)
        self.assertIn(by_caller, (9, 10))
        for _ in range(130):  # what either writes stays where it is
            pair.clock.advance(0.1)
        self.assertEqual([what for what, _ in pair.told], ["keepalive_failed"] * 2)

    def test_a_server_pings(self) -> None:
        """A server whose caller asks nothing by itself pings in its own interval."""
        pair = Pair([])
        pair.server.keep_alive(Keepalive(10, 3))
        self.assertEqual(self._pings(pair, 95), (0, 9))

    def test_many_look_in_one_turn(self) -> None:
        """Servers look for the silence of callers who spoke last at many times at a few times."""
        clock = Clock()
        pairs = [Pair([], clock=clock) for _ in range(40)]
        for pair in pairs:
            clock.advance(0.25)
            pair.server.keep_alive(Keepalive(15, 10))
            pair.client.wire.ping(b"12345678")
            pair.client.schedule()
            pair.turn()
        clock.advance(15)
        looks = {call.getTime() for call in clock.getDelayedCalls()}
        self.assertGreater(max(looks) - min(looks), 4)
        self.assertLess(len(looks), 8)

    def test_many_ping_at_common_times(self) -> None:
        """Callers who spoke last at many times ping at tenths of a second of the wall clock."""
        clock = Clock()
        ticks = CommonTicks(lambda: 1_000_000 + clock.seconds())
        pairs = [Pair([], clock=clock, keepalive=Keepalive(15, 10, ticks)) for _ in range(20)]
        for pair in pairs:
            clock.advance(0.037)
            pair.server.wire.ping(b"12345678")
            pair.server.schedule()
            pair.turn()
        found = []
        while clock.seconds() < 15:
            clock.advance(0.01)
            for pair in pairs:
                if _PING in b"".join(pair.client_side.stream):
                    found.append(clock.seconds())
                    pair.turn(2)
        self.assertEqual(len(found), 20)
        for at in found:
            self.assertLess(min(at % TICK_SECS, -at % TICK_SECS), 0.011)

    def test_who_speaks_is_not_asked(self) -> None:
        """A caller that hears something pings only once there is silence."""
        pair = Pair([], keepalive=Keepalive(10, 3))
        for _ in range(30):
            pair.clock.advance(6)
            self.assertEqual(b"".join(pair.client_side.stream).count(_PING), 0)
            pair.server.wire.ping(b"12345678")
            pair.server.schedule()
            pair.turn()

    def test_silent_server(self) -> None:
        """A server that stops answering is found out in interval plus timeout."""
        pair = Pair([], keepalive=Keepalive(10, 3))
        self._pings(pair, 20)
        for _ in range(130):
            pair.clock.advance(0.1)
        self.assertIn(("keepalive_failed", pair.client.peer.host), pair.told)

    def test_silent_caller(self) -> None:
        """A connection that never speaks HTTP/2 is dropped at the handshake deadline."""
        from twisted.internet.testing import StringTransport

        pair = Pair([])
        protocol = pair.factory.buildProtocol(None)
        transport = StringTransport()
        assert protocol is not None
        protocol.makeConnection(transport)
        pair.clock.advance(9.9)
        self.assertFalse(transport.disconnected)
        pair.clock.advance(0.2)
        self.assertTrue(transport.disconnected)
        self.assertIn("handshake_timeout", [what for what, _ in pair.told])
