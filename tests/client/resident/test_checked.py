"""Local connections that are checked before a session opens for them."""

from __future__ import annotations

from typing import Any

from twisted.internet.task import Clock
from twisted.internet.testing import StringTransportWithDisconnection
from twisted.trial.unittest import SynchronousTestCase

from svc.client.resident.checked import CheckedConnections, CheckedSide, Checking
from svc.client.resident.local import LAST_WORDS_SECS
from svc.errors import Denied, SvcError
from svc.lanes.relay import Relay


class Word:
    """A check that wants a line, and takes no ``bad``."""

    def __init__(self) -> None:
        self.resource, self.answer, self._said = "", b"", b""

    def heard(self, data: bytes) -> None:
        self._said += data
        if b"bad" in self._said:
            raise Denied("bad")
        if b"list" in self._said:
            self.answer = b"all of them"
        elif b"\n" in self._said:
            self.resource = "board"

    def refused(self, error: SvcError) -> bytes:
        return f"refused: {error.reason}\n".encode()


class Slow(StringTransportWithDisconnection):
    """A transport that closes, unless its peer takes nothing."""

    is_stuck = False

    def loseConnection(self) -> None:
        if not self.is_stuck:
            super().loseConnection()

    def abortConnection(self) -> None:
        self.is_stuck = False
        self.loseConnection()


class CheckedTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.begun: list[Relay] = []
        self.noted: list[tuple[str, str]] = []
        self.may = True
        make: Any = Word
        factory = CheckedConnections(
            lambda transport: self.may,
            self.begun.append,
            Checking(make, self.clock, lambda name, error: self.noted.append((name, error.reason))),
        )
        self.side = factory.buildProtocol(None)
        self.transport = Slow()
        self.transport.protocol = self.side

    def connect(self) -> CheckedSide:
        self.side.makeConnection(self.transport)
        return self.side

    def test_begins(self) -> None:
        """A session opens when it is known of which resource, and gets all that was said."""
        side = self.connect()
        side.dataReceived(b"first")
        self.assertEqual(self.begun, [])
        side.dataReceived(b" line\nmore")
        self.assertEqual(self.begun, [side.relay])
        self.assertEqual(self.transport.producerState, "paused")
        self.assertEqual((side.received, self.clock.getDelayedCalls()), (15, []))

    def test_another_user(self) -> None:
        """Nothing of another user's connection is read."""
        self.may = False
        self.connect()
        self.assertFalse(self.transport.connected)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_silence(self) -> None:
        """Whoever says nothing is left after a while, without a session."""
        self.connect()
        self.clock.advance(CheckedSide.FIRST_WORDS_SECS)
        self.assertEqual((self.transport.connected, self.begun), (False, []))

    def test_refused(self) -> None:
        """It is told why and noted; whoever does not close is left."""
        side = self.connect()
        self.transport.is_stuck = True
        side.dataReceived(b"bad")
        side.dataReceived(b"more\n")
        self.assertEqual(self.transport.value(), b"refused: denied\n")
        self.assertEqual((self.noted, self.begun), ([("", "denied")], []))
        self.assertEqual(len(self.clock.getDelayedCalls()), 1)
        self.clock.advance(LAST_WORDS_SECS)
        self.assertFalse(self.transport.connected)

    def test_answered(self) -> None:
        """What is answered here opens no session, and is no refusal."""
        side = self.connect()
        side.dataReceived(b"list\n")
        side.dataReceived(b"line\n")
        self.assertEqual(self.transport.value(), b"all of them")
        self.assertEqual((self.begun, self.noted), ([], []))
        self.assertEqual((self.transport.connected, self.clock.getDelayedCalls()), (False, []))

    def test_no_session(self) -> None:
        """A session that does not open is told in the check's words."""
        side = self.connect()
        side.dataReceived(b"line\n")
        side.say_last(Denied("no", reason="policy_stale"))
        self.assertEqual(self.transport.value(), b"refused: policy_stale\n")
        self.assertEqual((self.transport.connected, self.clock.getDelayedCalls()), (False, []))

    def test_leaves(self) -> None:
        """A tool that closes before it has said anything is gone."""
        side = self.connect()
        side.readConnectionLost()
        self.assertEqual((self.transport.connected, self.clock.getDelayedCalls()), (False, []))
