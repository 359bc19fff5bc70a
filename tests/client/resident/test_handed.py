"""Sessions between pipes that were handed over, through a Proxy in memory."""

from __future__ import annotations

import os
import select
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.testing import MemoryReactor
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from svc import __version__
from svc.client.ended import CutSessions
from svc.client.resident.handed import Caller, HandedSessions
from svc.client.resident.refused import RecentRefusals
from svc.client.stdio import LEAVE_SECS
from svc.errors import Denied, SvcError, Unavailable
from svc.messages.session import Listed
from tests.client.memory import DECISION, Gate
from tests.kinds.served import ssh, tcp
from tests.support.proof import proves

CONFIG = "1:2:3:4"


class Reactor(MemoryReactor):
    """Watches descriptors when told to; its clock is the Proxy's."""

    def __init__(self, clock: Any) -> None:
        MemoryReactor.__init__(self)
        self.callLater = clock.callLater
        self.seconds = clock.seconds

    def removeReader(self, reader: Any) -> None:
        self.readers.discard(reader)

    def removeWriter(self, writer: Any) -> None:
        self.writers.discard(writer)

    def look(self) -> None:
        """Tell what is ready."""
        readers, writers, _ = select.select(list(self.readers), list(self.writers), [], 0)
        for which, method in (
            *((each, "doRead") for each in readers),
            *((each, "doWrite") for each in writers),
        ):
            why = getattr(which, method)()
            if why is not None:
                self.readers.discard(which)
                self.writers.discard(which)
                which.connectionLost(Failure(why))


class HandedCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.gate = Gate()
        self.reactor = Reactor(self.gate.clock)
        self.refusals = RecentRefusals(lambda: 5.0)
        self.problem: SvcError | None = None
        self.channel: Any = self.gate.channel
        self.moves, self.is_back = 0, True
        self.listed: dict[str, Listed] = {}
        self.sessions = HandedSessions(
            config=CONFIG,
            reactor=self.reactor,
            kinds={"tcp": tcp, "ssh": ssh},
            dialer=self.gate.dialer,
            channel=lambda: self.channel,
            listed=lambda: self.listed,
            check=self.check,
            refusals=self.refusals,
            cuts=CutSessions(lambda: 5.0),
            moved=self.moved,
        )
        self.told = b""
        its_input, self.given = os.pipe()
        self.output, its_output = os.pipe()
        self.caller = Caller(self.tell)
        self.ours = [self.given, self.output]
        for descriptor in (its_input, its_output):
            self.caller.take(descriptor)
        self.addCleanup(self.end)

    def end(self) -> None:
        self.caller.lost()
        self.gate.turn()
        while self.ours:
            os.close(self.ours.pop())

    def tell(self, data: bytes) -> None:
        self.told += data

    def check(self) -> None:
        if self.problem is not None:
            raise self.problem

    async def moved(self) -> None:
        self.moves += 1
        self.gate.pair.server.wire.is_going_away = not self.is_back

    def carry(self, **changed: Any) -> Deferred[None]:
        question = {
            "ask": "carry",
            "version": __version__,
            "config": CONFIG,
            "resource": "db1",
            "kind": "tcp",
            "parameters": {},
        } | changed
        serving = self.caller.serve(lambda: self.sessions.carry(question, self.caller))
        carrying = Deferred.fromCoroutine(serving)
        self.gate.turn()
        return carrying

    def words(self) -> list[str]:
        return [line.partition(" ")[0] for line in self.told.decode().splitlines()]

    def turn(self) -> None:
        self.reactor.look()
        self.gate.turn()
        self.reactor.look()
        self.gate.turn()


class HandedTests(HandedCase):
    @proves("X-37")
    def test_session(self) -> None:
        """Bytes pass once the command has let go of its pipes, and each end is passed on."""
        os.write(self.given, b"hello")
        carrying = self.carry()
        self.turn()
        notice = f"open svc: db1: session open, decision {DECISION}"
        self.assertEqual(self.told.decode().splitlines(), ["taken", notice])
        self.assertEqual(self.reactor.readers, set())
        self.assertEqual(self.gate.far[0].received, b"")
        self.caller.went()
        self.turn()
        self.assertEqual(self.gate.far[0].received, b"hello")
        self.assertEqual(self.sessions.count, 1)
        self.gate.far[0].transport.write(b"world")
        self.gate.far[0].transport.loseConnection()
        self.turn()
        self.assertEqual(os.read(self.output, 64), b"world")
        self.turn()
        os.close(self.ours.pop(0))
        self.turn()
        self.successResultOf(carrying)
        self.assertEqual(os.read(self.output, 64), b"")
        self.assertEqual(self.words(), ["taken", "open", "out", "exit"])
        self.assertTrue(self.told.endswith(b"exit 0\n"))
        self.assertEqual(self.sessions.count, 0)

    def test_by_itself(self) -> None:
        """What the command is to do by itself is told at once, and nothing is asked of a Proxy."""
        wrong: tuple[dict[str, Any], ...] = (
            {"version": "0"},
            {"config": "1:2:3:5"},
            {"kind": "other"},
            {"kind": None},
            {"resource": ["db1"]},
            {"parameters": []},
            {"parameters": {"a": 1}},
            {"parameters": {"unknown": "x"}},
        )
        for changed in wrong:
            self.told = b""
            self.successResultOf(self.carry(**changed))
            self.assertEqual(self.told, b"itself\n", changed)
        self.assertEqual(self.gate.requests, [])

    def test_another_identity(self) -> None:
        """Where the identity on disk is another one, or no good, the command says so itself."""
        self.problem = SvcError("another person")
        self.successResultOf(self.carry())
        self.assertEqual(self.told, b"itself\n")

    def test_no_proxy(self) -> None:
        """While there is no Proxy the command looks for one itself."""

        def none() -> Any:
            raise Unavailable("no Proxy", reason="proxy_unreachable")

        self.sessions.channel = none
        self.successResultOf(self.carry())
        self.assertEqual(self.told, b"itself\n")

    def test_no_pipes(self) -> None:
        """Only two pipes are taken; a file, or a terminal, is the command's."""
        os.close(self.caller.given[1])
        self.caller.given[1] = os.open(os.devnull, os.O_RDWR)
        for _ in ("no pipe", "nothing"):
            self.told = b""
            self.successResultOf(self.carry())
            self.assertEqual((self.told, self.caller.given), (b"itself\n", []))
        self.assertEqual(self.gate.requests, [])

    def test_flags_are_its_own(self) -> None:
        """The pipes do not block the resident, whoever sets the flags of those that were sent."""
        given = list(self.caller.given)
        pipes = self.caller.pipes()
        assert pipes is not None
        self.ours.extend(pipes)
        self.assertEqual([os.get_blocking(each) for each in pipes], [False, False])
        self.assertEqual([os.path.exists(f"/proc/self/fd/{each}") for each in given], [False] * 2)
        self.assertTrue(os.get_blocking(self.given))

    @proves("G-SES-01")
    def test_denied(self) -> None:
        """A refusal is told with reason and decision, ends with 1, and is kept for the status."""
        self.gate.refuse = Denied("access denied", details={"decision_id": DECISION})
        self.successResultOf(self.carry())
        said = f"say svc: db1: access denied; reason denied; to see why: svc why {DECISION}"
        self.assertEqual(self.told.decode().splitlines(), ["taken", said, "exit 1"])
        self.assertEqual(self.refusals.kept[0].decision_id, DECISION)

    def test_another_kind(self) -> None:
        """Of a resource of another kind it is said how to run the command."""
        self.listed["db1"] = Listed(id="db1", kind="ssh", labels={}, served=True)
        self.gate.refuse = Denied("access denied", details={"decision_id": DECISION})
        self.successResultOf(self.carry())
        self.assertIn(b"is a ssh resource; run this with --kind ssh", self.told)

    def test_a_proxy_that_leaves(self) -> None:
        """A Proxy that did nothing for the session is left; where no other comes, by itself."""
        for is_back, words in ((True, ["taken", "open"]), (False, ["taken", "itself"])):
            self.setUp()
            self.is_back = is_back
            self.gate.pair.server.wire.is_going_away = True
            self.carry()
            self.assertEqual((self.moves, self.words()), (1, words))
            self.end()

    def test_a_connection_that_is_lost(self) -> None:
        """A session whose connection was lost before it stood is the command's again."""
        self.gate.silent = True
        carrying = self.carry()
        self.assertNoResult(carrying)
        self.channel = object()
        self.gate.pair.client_side.loseConnection()
        self.gate.turn()
        self.successResultOf(carrying)
        self.assertEqual(self.words(), ["taken", "itself"])

    def test_cut(self) -> None:
        """A session that breaks says why before its output is closed, and ends with 1."""
        carrying = self.carry()
        self.caller.went()
        self.turn()
        self.gate.far[0].transport.abortConnection()
        self.turn()
        self.successResultOf(carrying)
        self.assertEqual(self.words(), ["taken", "open", "say", "out", "exit"])
        self.assertIn(b"session ended", self.told)
        self.assertTrue(self.told.endswith(b"exit 1\n"))
        self.assertEqual(self.sessions.cuts.kept[0].resource, "db1")

    def test_no_go(self) -> None:
        """A command that does not let go of its pipes in time has no session."""
        carrying = self.carry()
        self.gate.clock.advance(11)
        self.gate.turn()
        self.successResultOf(carrying)
        self.assertEqual(self.reactor.readers, set())
        self.assertTrue(self.gate.ends)

    def test_a_command_that_goes(self) -> None:
        """A command that goes takes its session with it: at once while it opens, and later soon."""
        for silent in (True, False):
            self.gate.silent = silent
            carrying = self.carry()
            if not silent:
                self.caller.went()
                self.turn()
            self.caller.lost()
            self.turn()
            if not silent:
                self.assertFalse(carrying.called)
                self.gate.clock.advance(LEAVE_SECS)
                self.turn()
            self.assertTrue(carrying.called)
            self.assertEqual((self.sessions.count, self.reactor.readers), (0, set()))
            self.assertEqual(list(self.sessions.cuts.kept), [])
            self.end()
            self.setUp()

    def test_a_tool_that_goes(self) -> None:
        """What a tool said before it ended, and its command with it, reaches the far end."""
        carrying = self.carry()
        self.caller.went()
        self.turn()
        self.caller.lost()
        os.write(self.given, b"bye")
        while self.ours:
            os.close(self.ours.pop())
        self.turn()
        far = self.gate.far[0]
        self.assertEqual((far.received, far.heard_end), (b"bye", True))
        far.transport.loseConnection()
        self.turn()
        self.successResultOf(carrying)
        self.assertEqual((self.sessions.count, list(self.sessions.cuts.kept)), (0, []))
