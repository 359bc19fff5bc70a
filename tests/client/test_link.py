"""The way to a Proxy and the list that follows on it."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred, DeferredQueue
from twisted.internet.task import Clock
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from svc.client.link import ConfiguredProxy, ProxyLink, list_once, merge
from svc.errors import Denied, SvcError, Unavailable
from svc.interfaces.rpc import Peer, Within
from svc.messages.session import Listed, Listing, encode_listing
from svc.model.cluster.person import DISABLED_TEXT
from svc.runtime.services import BackgroundTasks


def one(name: str, served: bool = True) -> Listed:
    return Listed(id=name, kind="tcp", labels={}, served=served)


class MemoryStream:
    """A list that a test writes."""

    def __init__(self, channel: MemoryChannel) -> None:
        self._channel = channel
        self._messages: DeferredQueue[bytes | SvcError | None] = DeferredQueue()
        self.sent: list[bytes] = []
        self.ended = False

    async def send(self, message: bytes) -> None:
        self.sent.append(message)

    def end(self) -> None:
        self.ended = True

    async def receive(self, within: Within | None = None) -> bytes | None:
        message = await self._messages.get()
        if isinstance(message, SvcError):
            raise message
        return message

    def cancel(self, reason: str = "cancelled") -> None:
        self._channel.streams.discard(self)
        self.say(SvcError("cancelled", reason=reason))

    def say(self, message: bytes | SvcError | None) -> None:
        self._messages.put(message)

    def list(self, *names: str, complete: bool = True, removed: tuple[str, ...] = ()) -> None:
        self.say(encode_listing(Listing(complete, tuple(map(one, names)), removed)))


class MemoryChannel:
    """A connection to one Proxy."""

    def __init__(self) -> None:
        self.peer = Peer("proxy", 443)
        self.streams: set[MemoryStream] = set()
        self.made: list[MemoryStream] = []
        self.others = 0
        self.is_closed = False

    @property
    def open_streams(self) -> int:
        return len(self.streams) + self.others

    def stream(self, method: str, **options: Any) -> MemoryStream:
        if self.is_closed:
            raise Unavailable("the connection has ended")
        made = MemoryStream(self)
        self.streams.add(made)
        self.made.append(made)
        return made

    async def close(self) -> None:
        self.is_closed = True


class LinkTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.tasks = BackgroundTasks()
        self.dialed: list[tuple[str, MemoryChannel]] = []
        self.answers: list[Exception | None] = []
        self.listed: list[dict[str, Listed]] = []
        ways = [
            ConfiguredProxy("a:1", lambda: self.dial("a:1")),
            ConfiguredProxy("b:2", lambda: self.dial("b:2")),
        ]
        self.link = ProxyLink(
            clock=self.clock,
            ways=ways,
            listed=self.listed.append,
            jitter=lambda wait: wait,
            tasks=self.tasks,
            head=bytes,
        )
        self.addCleanup(self.tasks.stopService)
        self.addCleanup(lambda: self.link.running and self.link.stopService())

    async def dial(self, address: str) -> Any:
        self.dialed.append((address, MemoryChannel()))
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise answer
        return self.dialed[-1][1]

    @property
    def channel(self) -> MemoryChannel:
        return self.dialed[-1][1]

    def connect(self, *names: str) -> MemoryStream:
        if not self.link.running:
            self.link.startService()
        self.channel.made[-1].list(*names)
        return self.channel.made[-1]

    def names(self) -> list[str]:
        return sorted(self.listed[-1])

    def test_stopped_amid_a_dial(self) -> None:
        """A stop ends it also where the dial makes a failure of being cancelled."""

        def dial() -> Deferred[Any]:
            return Deferred(lambda dialing: dialing.errback(Unavailable("no such host")))

        link = ProxyLink(
            clock=self.clock,
            ways=[ConfiguredProxy("a:1", dial)],
            listed=lambda _: None,
            jitter=lambda _: 1.0,
            tasks=self.tasks,
            head=bytes,
        )
        link.startService()
        self.successResultOf(link.stopService())
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_follows(self) -> None:
        """The first list is all there is; what comes after changes it."""
        stream = self.connect("db1", "db2")
        self.assertEqual((self.names(), self.link.proxy), (["db1", "db2"], "a:1"))
        stream.list("db3", complete=False, removed=("db1",))
        self.assertEqual(self.names(), ["db2", "db3"])
        stream.list("db9")
        self.assertEqual(self.names(), ["db9"])
        self.assertTrue(stream.ended)

    def test_lacking(self) -> None:
        """Why the Proxy opens no session is known while it says so; said once each time."""
        stream = self.connect("db1")
        control, odd = Listing(False, lacking=("control_pool",)), Listing(False, lacking=("odd",))
        with capturedLogs() as events:
            stream.say(encode_listing(control))
            stream.say(encode_listing(control))
            self.assertEqual(self.link.lacking, ("control_pool",))
            stream.say(encode_listing(odd))
            self.assertEqual(self.link.lacking, ())
        self.assertEqual(
            [event["log_format"] for event in events],
            ["the Proxy cannot open sessions", "the Proxy can open sessions again"],
        )
        stream.say(encode_listing(control))
        stream.say(Unavailable("the connection has ended", reason="lost"))
        self.assertEqual(self.link.lacking, ())

    def test_next_proxy(self) -> None:
        """Where one Proxy does not answer the next is dialed, later each time."""
        self.answers = [Unavailable("no"), Unavailable("no"), Unavailable("no")]
        self.link.startService()
        self.assertEqual([address for address, _ in self.dialed], ["a:1"])
        self.assertIn("a:1", self.link.problem)
        self.clock.pump([0.4, 0.8, 1.6])
        self.assertEqual([address for address, _ in self.dialed], ["a:1", "b:2", "a:1", "b:2"])
        self.connect("db1")
        self.assertEqual((self.link.proxy, self.link.problem), ("b:2", ""))

    def test_defect(self) -> None:
        """What is no refusal is logged, shown as the problem, and another Proxy is dialed."""
        self.answers = [ZeroDivisionError(), None]
        self.link.startService()
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        self.assertEqual(self.link.problem, "a:1: an internal error; see the log of svc up")
        self.clock.advance(0.4)
        self.connect("db1")
        self.assertEqual((self.link.proxy, self.link.problem), ("b:2", ""))
        self.link.listed = lambda _: 1 / 0
        self.channel.made[-1].list("db2")
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        self.assertEqual(self.link.proxy, "")
        self.link.listed = self.listed.append
        self.clock.advance(0.4)
        self.connect("db3")
        self.assertEqual((self.link.proxy, self.names()), ("a:1", ["db3"]))

    def test_cancelled_by_another(self) -> None:
        """So it is where what the link waits for was cancelled, and the link was not stopped."""
        self.answers = [CancelledError(), None]
        self.link.startService()
        self.assertEqual(len(self.flushLoggedErrors(CancelledError)), 1)
        self.clock.advance(0.4)
        self.connect("db1")
        self.assertEqual(self.link.proxy, "b:2")

    def test_waits_are_bounded(self) -> None:
        """However long nobody answers, the next try comes within a quarter of a minute."""
        self.answers = [Unavailable("no")] * 40
        self.link.startService()
        for _ in range(39):
            (waiting,) = self.clock.getDelayedCalls()
            self.assertLessEqual(waiting.getTime() - self.clock.seconds(), 15.0)
            self.clock.advance(15.0)

    def test_channel(self) -> None:
        """While there is no connection, opening is refused at once, saying why."""
        refusal = self.assertRaises(Unavailable, self.link.channel)
        self.assertEqual(refusal.reason, "proxy_unreachable")
        self.connect("db1")
        self.assertIs(self.link.channel(), self.channel)

    def test_lost(self) -> None:
        """After a lost connection the list stays known, and another connection is made."""
        stream = self.connect("db1")
        first = self.channel
        stream.say(Unavailable("the connection has ended", reason="lost"))
        self.assertEqual((self.link.proxy, self.names()), ("", ["db1"]))
        self.assertIn("ended", self.link.problem)
        first.streams.clear()
        self.clock.advance(1)
        self.clock.advance(1)
        self.assertTrue(first.is_closed)
        self.connect("db2")
        self.assertEqual(self.names(), ["db2"])

    def test_unserved(self) -> None:
        """Once the Proxy has gone, what was served is told as not served; what there is, stays."""
        told: list[dict[str, Listed]] = []
        self.link.unserved = told.append
        stream = self.connect("a", "b")
        self.answers = [Unavailable("nobody there")] * 90
        self.assertEqual(told, [])
        stream.say(Unavailable("the connection has ended", reason="lost"))
        self.assertEqual(told, [{name: one(name, served=False) for name in ("a", "b")}])
        self.assertTrue(self.link.resources["a"].served)
        self.clock.pump([1] * 60)
        self.assertGreater(len(self.dialed), 4)
        self.assertEqual(len(told), 1)

    def test_denied(self) -> None:
        """Who is accepted no longer is told so, in our words, until a list comes again."""
        self.connect("db1")
        waiting = self.link.refreshed()
        for _ in range(2):
            self.channel.made[-1].say(Denied("come to my site", reason="disabled_person"))
            self.clock.advance(20)
        self.assertEqual(self.failureResultOf(waiting, Denied).value.reason, "disabled_person")
        denied = self.link.denied
        assert denied is not None
        self.assertEqual((denied.text, denied.reason), (DISABLED_TEXT, "disabled_person"))
        self.connect("db1")
        self.assertIsNone(self.link.denied)

    def test_silent_proxy(self) -> None:
        """A Proxy that takes the connection and lists nothing is left."""
        self.link.startService()
        self.clock.advance(21)
        self.clock.advance(1)
        self.assertEqual([address for address, _ in self.dialed], ["a:1", "b:2"])

    def test_refreshed(self) -> None:
        """Asked for, the list is fetched again on the same connection."""
        self.connect("db1")
        told: list[object] = []
        self.link.refreshed().addBoth(told.append)
        self.assertEqual((len(self.channel.made), told), (2, []))
        self.channel.made[-1].list("db2")
        self.assertEqual((told, self.names(), len(self.dialed)), ([None], ["db2"], 1))

    def test_refreshed_with_heads(self) -> None:
        """Whoever asks for the list gets it when the signed heads in it are taken, too."""
        self.connect("db1")
        taken: list[tuple[bytes, ...]] = []
        written: Deferred[None] = Deferred()

        async def take(lines: tuple[bytes, ...]) -> None:
            await written
            taken.append(lines)

        self.link.heads = take
        told: list[object] = []
        self.link.refreshed().addBoth(told.append)
        late = self.link.refreshed()
        self.channel.made[-1].say(encode_listing(Listing(True, (one("db1"),), heads=(b"head",))))
        late.addErrback(lambda _: None).cancel()
        self.assertEqual((told, taken), ([], []))
        written.callback(None)
        self.assertEqual((told, taken), ([None], [(b"head",)]))

    def test_heads_alone(self) -> None:
        """A listing that brings heads and nothing else is no change of the list."""
        self.connect("db1")
        taken: list[tuple[bytes, ...]] = []

        async def take(lines: tuple[bytes, ...]) -> None:
            taken.append(lines)

        self.link.heads = take
        listed: list[object] = []
        self.link.listed = listed.append
        self.channel.made[-1].say(encode_listing(Listing(False, heads=(b"head",))))
        self.assertEqual((taken, listed, self.names()), ([(b"head",)], [], ["db1"]))

    def test_moved_keeps_sessions(self) -> None:
        """Leaving a Proxy breaks no session: its connection is closed after the last one."""
        self.connect("db1")
        old = self.channel
        old.others = 1
        moving = Deferred.fromCoroutine(self.link.moved())
        self.clock.advance(1)
        self.connect("db1")
        self.successResultOf(moving)
        self.assertIsNot(self.channel, old)
        self.assertFalse(old.is_closed)
        old.others = 0
        self.clock.advance(1)
        self.assertTrue(old.is_closed)

    def test_moved_in_vain(self) -> None:
        """Where no Proxy takes over in time, that is said."""
        self.connect("db1")
        self.answers = [Unavailable("no")] * 20
        moving = Deferred.fromCoroutine(self.link.moved())
        self.clock.pump([0.5] * 25)
        refusal = self.failureResultOf(moving, Unavailable).value
        self.assertEqual(refusal.reason, "proxy_unreachable")

    def test_stop(self) -> None:
        """A stop closes the connection and dials no more."""
        self.connect("db1")
        self.successResultOf(self.link.stopService())
        self.tasks.stopService()
        self.assertTrue(self.channel.is_closed)
        self.clock.advance(60)
        self.assertEqual(len(self.dialed), 1)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_list_once(self) -> None:
        """A command gets the list once and leaves no call behind."""
        channel = MemoryChannel()
        asked: Any = channel
        getting = Deferred.fromCoroutine(list_once(asked, self.clock))
        channel.made[0].list("db1")
        seen: Any = getting
        self.assertEqual(sorted(self.successResultOf(seen)), ["db1"])
        self.assertEqual(channel.open_streams, 0)

    def test_merge_leaves_what_was(self) -> None:
        """A change makes a new list; whoever holds the old one keeps it."""
        known = {"db1": one("db1")}
        merge(known, Listing(False, (one("db2"),), ("db1",)))
        self.assertEqual(sorted(known), ["db1"])
