"""The resident's control socket, and what it tells."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase

from svc.client.ended import CutSessions
from svc.client.places import CONTROL_SOCKET
from svc.client.resident.control import QUESTION_SECS, TAKE_SECS, ControlFactory, ask_resident
from svc.client.resident.endpoint import Endpoint
from svc.client.resident.handed import Caller
from svc.client.resident.local import SocketDirectory, UnixGuard
from svc.client.resident.refused import RecentRefusals
from svc.client.resident.status import StatusService
from svc.errors import ConfigError, Denied, Malformed, SvcError
from svc.model.certificate import CertificateRefused
from tests.client.memory import DECISION
from tests.connector.pieces import Cluster
from tests.support.nothing import nothing
from tests.support.proof import proves


class Transport(StringTransport):
    """A caller's connection."""

    aborted = False

    def abortConnection(self) -> None:
        self.aborted = True


class ControlTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.questions: list[dict[str, Any]] = []
        self.lets_in = True
        self.refuse: SvcError | None = None
        self.callers: list[Caller] = []
        self.carrying: Deferred[None] = Deferred()
        self.clock: Any = Clock()

    async def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        self.questions.append(question)
        if self.refuse is not None:
            raise self.refuse
        return {"running": True}

    async def carry(self, question: dict[str, Any], caller: Caller) -> None:
        self.callers.append(caller)
        await self.carrying

    def spawn(self, what: str, coro: Coroutine[Any, Any, object]) -> None:
        self.successResultOf(Deferred.fromCoroutine(coro))

    def ask(self, *pieces: bytes) -> Transport:
        factory = ControlFactory(
            guard=lambda transport: self.lets_in,
            answer=self.answer,
            carry=self.carry,
            spawn=self.spawn,
            clock=self.clock,
        )
        protocol: Any = factory.buildProtocol(None)
        self.addCleanup(protocol.connectionLost)
        transport = Transport()
        protocol.makeConnection(transport)
        if not transport.aborted:
            for piece in pieces:
                protocol.dataReceived(piece)
        return transport

    def test_answer(self) -> None:
        """A question on one line is answered on one line, and the connection ends."""
        transport = self.ask(b'{"ask": ', b'"status"}\n')
        self.assertEqual(json.loads(transport.value()), {"running": True})
        self.assertEqual(transport.value().count(b"\n"), 1)
        self.assertTrue(transport.disconnecting)

    def test_silent(self) -> None:
        """Who asks nothing is cut off, and so is who does not read the answer."""
        for words, seconds in (((), QUESTION_SECS), ((b'{"ask": "status"}\n',), TAKE_SECS)):
            transport = self.ask(*words)
            self.clock.advance(seconds - 0.1)
            self.assertFalse(transport.aborted)
            self.clock.advance(0.1)
            self.assertTrue(transport.aborted)

    def test_nothing_is_left(self) -> None:
        """Nothing waits for a caller that has gone, nor while its session stands."""
        protocol, _ = self.caller()
        self.assertEqual(self.clock.getDelayedCalls(), [])
        protocol.connectionLost()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_one_question(self) -> None:
        """Further questions of one caller are not read."""
        self.ask(b'{"ask": "status"}\n{"ask": "status"}\n')
        self.assertEqual(len(self.questions), 1)

    def test_refusal(self) -> None:
        """A refusal is told with its reason word; nonsense is one."""
        self.refuse = Denied("no")
        told = json.loads(self.ask(b"{}\n").value())
        self.assertEqual(told["error"], {"reason": "denied", "text": "no"})
        for line in (b"nonsense\n", b"[]\n", b"\xff\n"):
            self.assertEqual(json.loads(self.ask(line).value())["error"]["reason"], "malformed")

    def test_another_user(self) -> None:
        """Whom the guard does not let in is not heard."""
        self.lets_in = False
        self.assertTrue(self.ask(b'{"ask": "status"}\n').aborted)
        self.assertEqual(self.questions, [])

    def test_too_long(self) -> None:
        """A line without an end is cut off."""
        transport = self.ask(b"x" * 70_000)
        self.assertTrue(transport.disconnecting)
        self.assertEqual(self.questions, [])

    def caller(self) -> tuple[Any, Transport]:
        """A caller that hands over two pipes, and is being served."""
        factory = ControlFactory(
            guard=lambda transport: self.lets_in,
            answer=self.answer,
            carry=self.carry,
            spawn=lambda what, coro: Deferred.fromCoroutine(coro),
            clock=self.clock,
        )
        protocol: Any = factory.buildProtocol(None)
        transport = Transport()
        protocol.makeConnection(transport)
        self.sent = [*os.pipe(), *os.pipe()]
        for descriptor in self.sent:
            protocol.fileDescriptorReceived(descriptor)
        protocol.dataReceived(b'{"ask": "carry"}\n')
        return protocol, transport

    def are_open(self) -> list[bool]:
        return [os.path.exists(f"/proc/self/fd/{each}") for each in self.sent]

    def test_pipes(self) -> None:
        """A caller's two pipes are kept for its session, no more of them, and closed with it."""
        protocol, transport = self.caller()
        (caller,) = self.callers
        self.assertEqual(caller.given, self.sent[:2])
        self.assertEqual(self.are_open(), [True, True, False, False])
        self.assertNoResult(caller.ready)
        protocol.dataReceived(b"no\ngo\ngo\n")
        self.successResultOf(caller.ready)
        self.assertFalse(transport.disconnecting)
        self.carrying.callback(None)
        self.assertTrue(transport.disconnecting)
        self.assertEqual(self.are_open(), [False] * 4)

    def test_a_caller_that_goes(self) -> None:
        """What is done for a caller that has gone is given up."""
        protocol, _ = self.caller()
        protocol.connectionLost()
        self.assertTrue(self.carrying.called)
        self.assertEqual(self.are_open(), [False] * 4)

    def test_pipes_without_a_question(self) -> None:
        """The pipes of a caller that asks nothing, or something else, are closed."""
        factory = ControlFactory(
            guard=lambda transport: True,
            answer=self.answer,
            carry=self.carry,
            spawn=self.spawn,
            clock=self.clock,
        )
        for words in (b"", b'{"ask": "status"}\n'):
            protocol: Any = factory.buildProtocol(None)
            protocol.makeConnection(Transport())
            self.sent = list(os.pipe())
            for descriptor in self.sent:
                protocol.fileDescriptorReceived(descriptor)
            protocol.dataReceived(words)
            protocol.connectionLost()
            self.assertEqual(self.are_open(), [False, False])


class AskTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.directory = Path(self.mktemp()).absolute()

    def serve(self, answer: bytes) -> None:
        self.directory.mkdir(mode=0o700)
        listening = socket.socket(socket.AF_UNIX)
        handle = os.open(self.directory, os.O_RDONLY)
        listening.bind(f"/proc/self/fd/{handle}/{CONTROL_SOCKET}")
        os.close(handle)
        listening.listen()

        def once() -> None:
            with listening.accept()[0] as caller:
                caller.recv(4096)
                caller.sendall(answer)

        thread = threading.Thread(target=once, daemon=True)
        thread.start()
        self.addCleanup(listening.close)

    def test_none(self) -> None:
        """Without a resident there is no answer, and no error."""
        self.assertIsNone(ask_resident(self.directory, {}, 5))
        self.directory.mkdir(mode=0o700)
        self.assertIsNone(ask_resident(self.directory, {}, 5))

    def test_answer(self) -> None:
        """A command gets the resident's answer whole, whatever its size and the path's length."""
        self.directory = self.directory / ("d" * 200)
        self.directory.parent.mkdir(mode=0o700)
        self.serve(json.dumps({"text": "x" * 300_000}).encode() + b"\n")
        told = ask_resident(self.directory, {"ask": "status"}, 5)
        assert told is not None
        self.assertEqual(len(told["text"]), 300_000)

    def test_refusal(self) -> None:
        """The resident's refusal is raised with its own words."""
        self.serve(b'{"error": {"reason": "deadline", "text": "too late"}}\n')
        refusal = self.assertRaises(SvcError, ask_resident, self.directory, {}, 5)
        self.assertEqual((refusal.reason, refusal.text), ("deadline", "too late"))

    def test_open_directory(self) -> None:
        """A directory that others can write to is not asked."""
        self.directory.mkdir()
        self.directory.chmod(0o777)
        self.assertRaises(ConfigError, ask_resident, self.directory, {}, 5)


class SocketDirectoryTests(SynchronousTestCase):
    def test_claim(self) -> None:
        """It becomes private, and sockets of a former life are gone; other files stay."""
        path = Path(self.mktemp())
        path.mkdir(mode=0o755)
        (path / "old.sock").write_text("")
        (path / "note").write_text("")
        sockets = SocketDirectory(path, os.geteuid())
        sockets.claim()
        self.addCleanup(sockets.release)
        self.assertEqual(path.stat().st_mode & 0o777, 0o700)
        self.assertEqual(os.listdir(path), ["note"])
        (path / "here").write_text("x")
        self.assertEqual(Path(sockets.address("here")).read_text(), "x")

    def test_what_libpq_looks_for(self) -> None:
        """A directory leads libpq to a socket; it goes with its endpoint, or at the next start."""
        path = Path(self.mktemp()).absolute()
        path.mkdir()
        (path / "kept").mkdir()
        (path / "kept" / "note").write_text("")
        sockets = SocketDirectory(path, os.geteuid())
        sockets.claim()
        self.addCleanup(sockets.release)
        there = sockets.show_to_libpq("db1")
        (path / "db1.sock").write_text("the socket")
        self.assertEqual((there / ".s.PGSQL.5432").read_text(), "the socket")
        self.assertEqual(there.stat().st_mode & 0o777, 0o700)
        sockets.hide_from_libpq("db1")
        sockets.hide_from_libpq("kept")
        self.assertEqual(sorted(os.listdir(path)), ["db1.sock", "kept"])
        sockets.show_to_libpq("db1")
        sockets.claim()
        self.assertEqual(os.listdir(path), ["kept"])

    def test_not_ours(self) -> None:
        """Another user's directory is not used."""
        path = Path(self.mktemp())
        sockets = SocketDirectory(path, os.geteuid() + 1)
        self.assertRaises(OSError, sockets.claim)

    def test_guard(self) -> None:
        """The uid at the other end of a unix socket is asked of the kernel."""
        near, far = socket.socketpair()
        self.addCleanup(near.close)
        self.addCleanup(far.close)

        class Connected:
            def getPeer(self) -> Any:
                from twisted.internet.address import UNIXAddress

                return UNIXAddress(None)

            def getHandle(self) -> socket.socket:
                return near

        self.assertTrue(UnixGuard(os.geteuid())(Connected()))
        self.assertFalse(UnixGuard(os.geteuid() + 1)(Connected()))


class Link:
    """The way to a Proxy, as the status service sees it."""

    proxy = "a:1"
    problem = ""
    lacking: tuple[str, ...] = ()
    denied: Denied | None = None

    def __init__(self) -> None:
        self.waiting: list[Deferred[None]] = []

    def refreshed(self) -> Deferred[None]:
        self.waiting.append(Deferred())
        return self.waiting[-1]


class Residence:
    """A resident, as the status service sees it."""

    endpoints = (
        Endpoint(
            resource="db1",
            kind="tcp",
            served=True,
            address="127.64.3.7:15432",
            socket="run/db1.sock",
        ),
    )
    sessions = 3
    listing = "http://svc-abcdefabcdefabcd.localhost:24650/"
    cuts = CutSessions(lambda: 1_900_000_000.0)


class Handed:
    """Sessions that were handed over, as the status service sees them."""

    count = 2


class StatusTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.link = Link()
        resident: Any = Residence()
        link: Any = self.link
        handed: Any = Handed()
        self.refusals = RecentRefusals(lambda: 1_900_000_000.0)
        cluster = Cluster()
        self.person = cluster.person
        self.service = StatusService(
            resident=resident,
            handed=handed,
            link=link,
            identity=cluster.person,
            refusals=self.refusals,
            clock=self.clock,
            renew=nothing,
        )

    def ask(self, **question: Any) -> Deferred[dict[str, Any]]:
        return Deferred.fromCoroutine(self.service.answer(question))

    @proves("G-CLI-23")
    def test_status(self) -> None:
        """Identity, connection, endpoints and refusals are told, with their reasons."""
        denied = Denied("access denied", details={"decision_id": DECISION, "policies": "p1,p2"})
        self.refusals.note("db1", denied)
        told = self.successResultOf(self.ask(ask="status"))
        self.assertEqual(told["person"], self.person.principal.id)
        self.assertEqual((told["proxy"]["connected"], told["sessions"]), (True, 5))
        self.assertEqual(told["endpoints"][0]["address"], "127.64.3.7:15432")
        (refused,) = told["refused"]
        self.assertEqual((refused["reason"], refused["policies"]), ("denied", ["p1", "p2"]))
        self.assertEqual((refused["decision_id"], refused["at"][:4]), (DECISION, "2030"))
        json.dumps(told)

    @proves("G-CLI-23")
    def test_refresh(self) -> None:
        """Asked to, it fetches the list again before it answers."""
        answering = self.ask(ask="status", refresh=True)
        self.assertNoResult(answering)
        self.link.waiting[0].callback(None)
        self.assertTrue(self.successResultOf(answering)["running"])

    def test_refresh_in_vain(self) -> None:
        """Where the Proxy does not answer, the caller is told so in time."""
        answering = self.ask(ask="status", refresh=True)
        self.clock.advance(16)
        self.assertEqual(self.failureResultOf(answering, SvcError).value.reason, "deadline")

    def test_refresh_without_a_proxy(self) -> None:
        """Where no Proxy is connected, the status says so and why, instead of a bare refusal."""
        self.link.proxy, self.link.problem = "", "cannot connect: connection refused"
        answering = self.ask(ask="status", refresh=True)
        self.clock.advance(16)
        told = self.successResultOf(answering)
        self.assertEqual(told["proxy"]["connected"], False)
        self.assertEqual(told["proxy"]["problem"], "cannot connect: connection refused")

    def test_refresh_after_the_end(self) -> None:
        """With a certificate that has ended nobody is waited for: the answer names the end."""
        certificate: Any = self.person
        end = certificate.facts.not_after
        certificate._now = lambda: end + 90
        renewing = []
        self.service.renew = lambda: renewing.append(True)
        refusal = self.failureResultOf(self.ask(ask="status", refresh=True), CertificateRefused)
        self.assertEqual(refusal.value.reason, "certificate_expired")
        self.assertIn("90 s ago", refusal.value.text)
        self.assertEqual((self.link.waiting, renewing), ([], [True]))

    def test_refresh_after_a_new_join(self) -> None:
        """An identity that was joined for meanwhile is taken, and asked with."""
        certificate: Any = self.person
        now = certificate._now
        certificate._now = lambda: certificate.facts.not_after + 90

        def renew() -> None:
            certificate._now = now

        self.service.renew = renew
        answering = self.ask(ask="status", refresh=True)
        self.link.waiting[0].callback(None)
        self.assertTrue(self.successResultOf(answering)["running"])

    def told(self) -> dict[str, Any]:
        return self.successResultOf(self.ask(ask="status"))

    def test_expired(self) -> None:
        """With a certificate that has ended no connection is shown as one that serves."""
        certificate: Any = self.person
        certificate._now = lambda: certificate.facts.not_after + 90
        self.assertFalse(self.told()["proxy"]["connected"])

    def test_no_proxy(self) -> None:
        """While no Proxy is connected nothing is served, and no session opens: why, is told."""
        (there,) = self.told()["endpoints"]
        self.assertEqual((there["served"], self.told()["no_new_sessions"]), (True, []))
        self.link.proxy, self.link.problem = "", "gate:7400: cannot connect"
        (there,) = self.told()["endpoints"]
        self.assertEqual((there["served"], there["address"]), (False, "127.64.3.7:15432"))
        (why,) = self.told()["no_new_sessions"]
        self.assertEqual(why["reason"], "proxy_unreachable")
        self.assertIn("cannot reach any Proxy: gate:7400: cannot connect", why["text"])

    def test_lacking(self) -> None:
        """What the Proxy lacks is told as the reason why no session opens."""
        self.assertEqual(self.told()["no_new_sessions"], [])
        self.link.lacking = ("control_pool",)
        self.assertEqual(
            self.told()["no_new_sessions"],
            [{"reason": "control_pool", "text": "the Proxy cannot reach Authority"}],
        )

    def test_refused_for_all(self) -> None:
        """A refusal that concerns every resource stands until a session opens."""
        self.refusals.note(
            "db1", SvcError("the disk of the Authority is full", reason="store_full")
        )
        self.refusals.note("db2", Denied("access denied"))
        (standing,) = self.told()["no_new_sessions"]
        self.assertEqual(standing["reason"], "store_full")
        self.refusals.opened()
        self.assertEqual(self.told()["no_new_sessions"], [])

    def test_denied(self) -> None:
        """A person whom no Proxy accepts is told why, also at once when the Proxy is asked."""
        asked = self.ask(ask="status", refresh=True)
        self.link.denied = Denied("the person was disabled", reason="disabled_person")
        self.link.waiting[0].errback(self.link.denied)
        told = self.successResultOf(asked)["no_new_sessions"]
        self.assertEqual(told, [{"reason": "disabled_person", "text": "the person was disabled"}])

    def test_unknown(self) -> None:
        """Nothing else can be asked there."""
        self.failureResultOf(self.ask(ask="open"), Malformed)
