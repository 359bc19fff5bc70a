"""Halves of direct lanes at a listener that serves something else as well (rule R20)."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet import reactor as _reactor
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase, TestCase

from svc.errors import Malformed, SvcError
from svc.lanes.front import PREFACE_SECS, FrontFactory
from svc.lanes.preface import GO, PREFACE_BYTES, Preface, Side, parse_preface
from svc.lanes.rendezvous import MAX_OF_OWNER, RENDEZVOUS_SECS, Rendezvous, RendezvousTable
from svc.lanes.splice import Splice

reactor: Any = _reactor


class Usual(Protocol):
    """What the listener serves: echoes, and hears the end."""

    def __init__(self, site: FrontTests) -> None:
        self.site = site
        self.stood_aside = False
        self.heard = b""
        self.lost = 0

    def connectionMade(self) -> None:
        # As TLS and HTTP/2 do.
        self.transport.registerProducer(self, True)  # type: ignore[union-attr]

    def pauseProducing(self) -> None:
        pass

    resumeProducing = stopProducing = pauseProducing

    def dataReceived(self, data: bytes) -> None:
        self.heard += data
        self.transport.write(data)  # type: ignore[union-attr]

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.lost += 1
        # As TLS does amid a handshake.
        self.transport.loseConnection()  # type: ignore[union-attr]


class Caller(Protocol):
    """A connection to the listener, from outside."""

    transport: Any

    def __init__(self) -> None:
        self.heard = b""
        self.lost: Deferred[Any] = Deferred()
        self._until: list[tuple[int, Deferred[None]]] = []

    def dataReceived(self, data: bytes) -> None:
        self.heard += data
        due = [one for one in self._until if one[0] <= len(self.heard)]
        self._until = [one for one in self._until if one[0] > len(self.heard)]
        for _, waiting in due:
            waiting.callback(None)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.lost.callback(reason.value)

    def until(self, size: int) -> Deferred[None]:
        waiting: Deferred[None] = Deferred()
        if len(self.heard) >= size:
            waiting.callback(None)
        else:
            self._until.append((size, waiting))
        return waiting


class Timed:
    """The reactor, but that time stands still unless a test moves it."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.callLater = self.clock.callLater

    def __getattr__(self, name: str) -> Any:
        return getattr(reactor, name)


class PrefaceTests(SynchronousTestCase):
    @given(st.sampled_from(list(Side)), st.binary(min_size=32, max_size=32))
    def test_there_and_back(self, side: Side, token: bytes) -> None:
        """A preface is read as it was written, is of one length, and prints no token."""
        data = Preface(side, token).encode()
        self.assertEqual(len(data), PREFACE_BYTES)
        self.assertLessEqual(len(data), 128)
        self.assertEqual(parse_preface(data), Preface(side, token))
        self.assertNotIn(token.hex(), repr(Preface(side, token)))

    @given(st.binary(max_size=64))
    def test_any_bytes(self, data: bytes) -> None:
        """Anything else is Malformed."""
        try:
            preface = parse_preface(data)
        except Malformed:
            return
        self.assertEqual(preface.encode(), data)


class FrontTests(TestCase):
    timeout = 20

    def setUp(self) -> None:
        self.timed: Any = Timed()
        timed: Any = self.timed
        self.counts: Counter[str] = Counter()
        self.rendezvous_table = RendezvousTable(
            reactor=self.timed, entropy=os.urandom, on_outcome=self.tell, most=40
        )
        self.addCleanup(self.rendezvous_table.pipes.close)
        self.usual: list[Usual] = []
        factory = FrontFactory(
            usual=Factory.forProtocol(self.make_usual),
            rendezvous_table=self.rendezvous_table,
            clock=timed,
            stand_aside=self.stand_aside,
        )
        self.port: Any = reactor.listenTCP(0, factory, interface="127.0.0.1")
        self.addCleanup(self.port.stopListening)
        self.callers: list[Caller] = []
        self.addCleanup(self.hang_up)

    async def hang_up(self) -> None:
        for caller in self.callers:
            caller.transport.abortConnection()
        await gatherResults([caller.lost for caller in self.callers])

    def tell(self, word: str) -> None:
        self.counts[word] += 1

    def make_usual(self) -> Usual:
        self.usual.append(Usual(self))
        return self.usual[-1]

    def stand_aside(self, usual: Usual) -> None:
        usual.stood_aside = True

    async def call(self, said: bytes) -> Caller:
        caller = Caller()
        self.callers.append(caller)
        factory = Factory.forProtocol(lambda: caller)
        factory.noisy = False
        made: Deferred[None] = Deferred()
        caller.connectionMade = lambda: made.callback(None)  # type: ignore[method-assign]
        from twisted.internet.endpoints import TCP4ClientEndpoint

        endpoint = TCP4ClientEndpoint(reactor, "127.0.0.1", self.port.getHost().port)
        await endpoint.connect(factory)
        await made
        caller.transport.write(said)
        return caller

    def arrange(self, owner: str = "ada") -> tuple[Rendezvous, list[Any]]:
        rendezvous = self.rendezvous_table.arrange(owner)
        came: list[Any] = []
        rendezvous.spliced.addBoth(came.append)
        return rendezvous, came

    def preface(self, rendezvous: Rendezvous, side: Side) -> bytes:
        return Preface(side, rendezvous.tokens[side]).encode()

    async def test_what_is_usually_served_gets_every_byte(self) -> None:
        """A connection that begins otherwise is served as if nothing stood before it."""
        caller = await self.call(b"\x16\x03\x01 hello")
        await caller.until(9)
        caller.transport.write(b"svc-lane-v1 ")
        await caller.until(21)
        self.assertEqual(self.usual[0].heard, b"\x16\x03\x01 hellosvc-lane-v1 ")
        caller.transport.loseConnection()
        await caller.lost
        self.assertFalse(self.usual[0].stood_aside)

    async def test_two_halves_meet(self) -> None:
        """Both are told at once, then each hears the other; the usual one stands aside."""
        rendezvous, came = self.arrange()
        one = await self.call(self.preface(rendezvous, Side.CONNECTOR))
        two = await self.call(b"")
        for byte in self.preface(rendezvous, Side.PERSON):
            two.transport.write(bytes((byte,)))
        await gatherResults([one.until(len(GO)), two.until(len(GO))])
        self.assertIsInstance(came[0], Splice)
        one.transport.write(b"to the person")
        two.transport.write(b"to the connector")
        await gatherResults([one.until(len(GO) + 16), two.until(len(GO) + 13)])
        self.assertEqual(one.heard, GO + b"to the connector")
        self.assertEqual(two.heard, GO + b"to the person")
        self.assertTrue(all(usual.stood_aside and usual.lost == 1 for usual in self.usual))
        self.assertEqual(self.counts, {"joined": 1})
        self.assertEqual((self.rendezvous_table.expected, self.timed.clock.calls), (0, []))

    async def refused(self, said: bytes) -> None:
        """What was said is answered by nothing but the end, and counted."""
        before = self.counts["refused"]
        await self.closed(said)
        self.assertEqual(self.counts["refused"], before + 1)

    async def closed(self, said: bytes) -> None:
        """What was said is answered by nothing but the end."""
        caller = await self.call(said)
        reason = await caller.lost
        self.callers.remove(caller)
        self.assertIsInstance(reason, ConnectionLost)
        self.assertEqual(caller.heard, b"")

    async def test_a_wrong_token(self) -> None:
        """A guessed token, a preface that is none, and one with more behind it move no byte."""
        rendezvous, came = self.arrange()
        await self.refused(Preface(Side.PERSON, bytes(32)).encode())
        await self.refused(b"svc-lane-v2 p" + rendezvous.tokens[Side.PERSON])
        await self.refused(b"svc-lane-v1 x" + rendezvous.tokens[Side.PERSON])
        await self.refused(self.preface(rendezvous, Side.PERSON) + b"more")
        self.assertEqual(came, [])
        self.assertEqual(self.rendezvous_table.expected, 2)

    async def test_a_used_token(self) -> None:
        """A token is consumed by the first half that shows it."""
        rendezvous, came = self.arrange()
        await self.call(self.preface(rendezvous, Side.PERSON))
        while self.rendezvous_table.expected == 2:
            await self.turn()
        await self.refused(self.preface(rendezvous, Side.PERSON))
        self.assertEqual(came, [])
        two = await self.call(self.preface(rendezvous, Side.CONNECTOR))
        await two.until(len(GO))
        await self.refused(self.preface(rendezvous, Side.CONNECTOR))
        self.assertEqual(len(came), 1)

    async def test_swapped_tokens(self) -> None:
        """A token shown by the other side ends the meeting, for both sides."""
        rendezvous, came = self.arrange()
        await self.refused(Preface(Side.CONNECTOR, rendezvous.tokens[Side.PERSON]).encode())
        self.assertIsInstance(came[0].value, SvcError)
        await self.refused(self.preface(rendezvous, Side.CONNECTOR))
        self.assertEqual(self.rendezvous_table.expected, 0)

    async def test_a_late_token(self) -> None:
        """After ten seconds the half that came is closed, and no token is good any more."""
        rendezvous, came = self.arrange()
        one = await self.call(self.preface(rendezvous, Side.PERSON))
        while self.rendezvous_table.expected == 2:
            await self.turn()
        self.timed.clock.advance(RENDEZVOUS_SECS)
        self.assertEqual(came[0].value.reason, "missed")
        await one.lost
        self.callers.remove(one)
        self.assertEqual(one.heard, b"")
        await self.refused(self.preface(rendezvous, Side.CONNECTOR))
        self.assertEqual(self.counts, {"missed": 1, "refused": 1})

    async def test_a_half_that_left(self) -> None:
        """A half that is gone before the other comes is no half: the other is sent away."""
        rendezvous, came = self.arrange()
        one = await self.call(self.preface(rendezvous, Side.PERSON))
        while self.rendezvous_table.expected == 2:
            await self.turn()
        one.transport.loseConnection()
        await one.lost
        self.callers.remove(one)
        two = await self.call(self.preface(rendezvous, Side.CONNECTOR))
        reason = await two.lost
        self.callers.remove(two)
        self.assertFalse(isinstance(reason, ConnectionDone) and two.heard)
        self.assertEqual(two.heard, b"")
        self.assertEqual(came[0].value.reason, "missed")

    async def test_a_slow_preface(self) -> None:
        """A preface that is not whole after five seconds ends the connection."""
        rendezvous, _ = self.arrange()
        one = await self.call(self.preface(rendezvous, Side.PERSON)[:20])
        while len(self.timed.clock.calls) < 2:
            await self.turn()
        self.timed.clock.advance(PREFACE_SECS)
        await one.lost
        self.callers.remove(one)
        self.assertEqual((one.heard, self.counts), (b"", {"refused": 1}))
        rendezvous.spliced.cancel()

    async def test_no_room(self) -> None:
        """There are only so many lanes; one that is over makes room, whoever's it was."""
        self.rendezvous_table.most = 2
        rendezvous, came = self.arrange()
        for side in Side:
            await self.call(self.preface(rendezvous, side))
        while not came:
            await self.turn()
        other, _ = self.arrange("bob")
        refusal = self.assertRaises(SvcError, self.rendezvous_table.arrange, "cyd")
        self.assertEqual(refusal.reason, "too_many_lanes")
        came[0].abort()
        self.arrange("cyd")[0].spliced.cancel()
        other.spliced.cancel()
        self.assertEqual(self.rendezvous_table.lanes, 0)

    async def test_called_off(self) -> None:
        """A meeting that is called off closes what had come; its tokens are void.

        The half that is on its way then is no stranger's: it is closed, once without a count.
        """
        rendezvous, came = self.arrange()
        one = await self.call(self.preface(rendezvous, Side.PERSON))
        while self.rendezvous_table.expected == 2:
            await self.turn()
        rendezvous.spliced.cancel()
        await one.lost
        self.callers.remove(one)
        self.assertEqual(came[0].value.reason, "called_off")
        await self.refused(self.preface(rendezvous, Side.PERSON))
        await self.closed(self.preface(rendezvous, Side.CONNECTOR))
        self.assertEqual(self.counts["refused"], 1)
        await self.refused(self.preface(rendezvous, Side.CONNECTOR))
        self.assertEqual(self.timed.clock.calls, [])

    async def test_too_many(self) -> None:
        """One person may wait for so many lanes; another person still may, and later they too."""
        mine = [self.arrange()[0] for _ in range(MAX_OF_OWNER)]
        refusal = self.assertRaises(SvcError, self.rendezvous_table.arrange, "ada")
        self.assertEqual(refusal.reason, "too_many_lanes")
        other, _ = self.arrange("bob")
        mine[0].spliced.cancel()
        self.arrange()
        self.timed.clock.advance(RENDEZVOUS_SECS)
        self.assertEqual(self.rendezvous_table.expected, 0)
        self.assertTrue(other.spliced.called)

    async def turn(self) -> None:
        waiting: Deferred[None] = Deferred()
        reactor.callLater(0, waiting.callback, None)
        await waiting
