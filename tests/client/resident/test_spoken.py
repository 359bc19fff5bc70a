"""A local side that hears its tool before the session: who is heard, how long, and last words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer
from zope.interface.verify import verifyObject

from svc.client.ended import SessionSide
from svc.client.resident.local import (
    LAST_WORDS_SECS,
    LocalConnections,
    Speaking,
    SpokenSide,
)
from svc.errors import Malformed, SvcError
from svc.interfaces.kinds import ILocalDialogue
from svc.lanes.relay import Relay
from svc.model.session.ending import SessionOver


@implementer(ILocalDialogue)
class Lines:
    """A protocol whose first line names what is wanted."""

    parameters: Mapping[str, str] | None = None
    key = b"k"
    cancels = b""
    tls = b""

    def __init__(self) -> None:
        self.line = b""
        self.passed = b""

    def heard(self, data: bytes) -> bytes:
        self.line += data
        if b"!" in self.line:
            raise Malformed("no such wish")
        if self.line == b"hide":
            self.line, self.tls = b"", b"lines"
        elif self.line.startswith(b"stop "):
            self.cancels = self.line[5:]
        elif self.line.endswith(b"\n"):
            self.parameters = {"wish": self.line.decode().strip()}
        return b"?"

    def answered(self, data: bytes) -> bytes:
        self.passed += data
        return data.upper()

    def refused(self, error: SvcError) -> bytes:
        return f"refused {error.reason}".encode()

    def ended(self, over: SessionOver) -> bytes:
        return f"ended {over.reason}".encode()


class SpokenTests(SynchronousTestCase):
    """One connection of a tool."""

    def setUp(self) -> None:
        """Connect it."""
        verifyObject(ILocalDialogue, Lines())
        self.clock = Clock()
        self.begun: list[Relay] = []
        self.cancelled: list[bytes] = []
        self.is_let_in = True
        self.transport = self.connect()

    def connect(self) -> Any:
        connections = LocalConnections(
            lambda transport: self.is_let_in,
            self.begun.append,
            Speaking(
                dialogue=Lines,
                clock=self.clock,
                cancel=self.cancelled.append,
                tls=lambda protocol: b"TLS for " + protocol,
            ),
        )
        side: Any = connections.buildProtocol(None)
        transport: Any = StringTransport()
        transport.startTLS = transport.write
        transport.abortConnection = lambda: self.lose(side)
        side.makeConnection(transport)
        self.side: SpokenSide = side
        return transport

    def lose(self, side: Any) -> None:
        if not side.is_lost:
            side.connectionLost(Failure(ConnectionDone()))

    def says(self, data: bytes) -> bytes:
        """What is answered."""
        self.transport.clear()
        self.side.dataReceived(data)
        value: bytes = self.transport.value()
        return value

    def test_heard_first(self) -> None:
        """The session is asked for once the tool has named it; what follows is the session's."""
        self.assertEqual(self.transport.producerState, "producing")
        self.assertEqual((self.says(b"a"), self.begun), (b"?", []))
        self.says(b"b\n")
        self.assertEqual(self.begun, [self.side.relay])
        self.assertEqual(self.side.dialogue.parameters, {"wish": "ab"})
        self.assertEqual(self.transport.producerState, "paused")
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertEqual(self.says(b"more"), b"")

    def test_encrypted(self) -> None:
        """TLS begins once, behind the answer that grants it; then the tool is heard as before."""
        self.assertEqual(self.says(b"hide"), b"?TLS for lines")
        self.assertEqual(self.says(b"a\n"), b"?")
        self.assertEqual(self.side.dialogue.parameters, {"wish": "a"})

    def test_somebody_else(self) -> None:
        """Who is not let in is not heard."""
        self.is_let_in = False
        self.connect()
        self.assertTrue(self.side.is_lost)
        self.assertEqual(len(self.clock.getDelayedCalls()), 1)  # of the first connection

    def test_silence(self) -> None:
        """A tool that says nothing is left."""
        self.clock.advance(SpokenSide.FIRST_WORDS_SECS)
        self.assertTrue(self.side.is_lost)
        self.assertEqual((self.begun, self.clock.getDelayedCalls()), ([], []))

    def test_nonsense(self) -> None:
        """What cannot begin a session is answered in the tool's words, and the connection ends."""
        self.assertEqual(self.says(b"!"), b"refused malformed")
        self.assertTrue(self.transport.disconnecting)
        self.clock.advance(LAST_WORDS_SECS)
        self.assertTrue(self.side.is_lost)
        self.assertEqual(self.begun, [])

    def test_cancels(self) -> None:
        """A connection that cancels is told nothing, is left, and never becomes a session."""
        self.assertEqual(self.says(b"stop k"), b"?")
        self.assertEqual(self.cancelled, [b"k"])
        self.assertTrue(self.transport.disconnecting)
        self.assertEqual(self.says(b"\n"), b"")
        self.clock.advance(LAST_WORDS_SECS)
        self.assertTrue(self.side.is_lost)
        self.assertEqual((self.begun, self.cancelled), ([], [b"k"]))

    def test_leaves(self) -> None:
        """A tool that closes before it has said anything wants no session."""
        self.side.readConnectionLost()
        self.assertTrue(self.side.is_lost)
        self.assertEqual((self.begun, self.clock.getDelayedCalls()), ([], []))

    def session(self) -> Any:
        """Connect the session's side."""
        self.says(b"a\n")
        relay, side = self.side.relay, self.side

        def cut() -> bool:
            return side.tell_why(SessionOver("policy_changed"))

        relay.right = SessionSide(relay, cut, side.dialogue.answered)
        transport = StringTransport()
        relay.right.makeConnection(transport)
        return relay.right

    def test_cut(self) -> None:
        """A session that is cut has last words, after all that it had said."""
        session = self.session()
        self.transport.clear()
        session.dataReceived(b"rows;")
        self.assertEqual(self.transport.value(), b"ROWS;")
        self.transport.clear()
        session.connectionLost(Failure(ConnectionLost()))
        self.assertEqual(self.transport.value(), b"ended policy_changed")
        self.assertTrue(self.transport.disconnecting)
        self.assertEqual(self.side.dialogue.passed, b"rows;")  # type: ignore[attr-defined]
        self.lose(self.side)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_cut_as_it_leaves(self) -> None:
        """A tool that has taken its leave gets no error after that."""
        session = self.session()
        self.transport.clear()
        self.side.readConnectionLost()
        session.connectionLost(Failure(ConnectionLost()))
        self.assertEqual(self.transport.value(), b"")
        self.assertTrue(self.side.is_lost)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_closed(self) -> None:
        """One that ends in order has none."""
        session = self.session()
        self.transport.clear()
        session.connectionLost(Failure(ConnectionDone()))
        self.assertEqual(self.transport.value(), b"")
        self.assertTrue(self.transport.disconnecting)
