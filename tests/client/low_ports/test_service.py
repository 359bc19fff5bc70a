"""The helper's socket: deadlines, limits, and what comes of bytes that are no question."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Coroutine, Mapping
from typing import Any

from twisted.internet.address import UNIXAddress
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from svc.client.low_ports.service import (
    DEADLINE_SECS,
    MAX_CONNECTIONS,
    MAX_OF_USER,
    QUESTIONS,
    BinderFactory,
    BinderProtocol,
    Questions,
)
from svc.client.low_ports.words import MAX_QUESTION
from svc.errors import Denied


class Handle:
    """A connected Unix socket of which the kernel says whose it is."""

    def __init__(self, uid: int) -> None:
        self._uid = uid

    def getsockopt(self, level: int, option: int, size: int) -> bytes:
        assert (level, option) == (socket.SOL_SOCKET, socket.SO_PEERCRED)
        return b"".join(one.to_bytes(4, "little") for one in (1, self._uid, 1))


class Connection(StringTransport):
    """A user's connection."""

    is_aborted = False

    def __init__(self, uid: int) -> None:
        super().__init__(peerAddress=UNIXAddress(None))
        self._handle = Handle(uid)

    def getHandle(self) -> Handle:
        return self._handle

    def abortConnection(self) -> None:
        self.is_aborted = True

    def answer(self) -> Any:
        """What was said; nothing is said after it."""
        assert self.disconnecting
        return json.loads(self.value())


class Answers:
    """Answers with what it was asked, or with a refusal."""

    def __init__(self) -> None:
        self.refusal: Denied | None = None
        self.waits = Deferred[None]()
        self.is_slow = False
        self.given: list[int | None] = []

    async def answer(self, uid: int, question: Mapping[str, Any], given: int | None) -> Any:
        self.given.append(given)
        if self.is_slow:
            await self.waits
        if self.refusal is not None:
            raise self.refusal
        return {"uid": uid, "asked": question}


class ServiceTests(SynchronousTestCase):
    """Over memory, by a clock that stands still."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.answers = Answers()
        binder: Any = self.answers
        questions = Questions(helper=binder, clock=self.clock, spawn=self.spawn)
        self.factory = BinderFactory(questions)

    def spawn(self, what: str, coro: Coroutine[Any, Any, object]) -> None:
        Deferred.fromCoroutine(coro)

    def connect(self, uid: int = 1000) -> tuple[BinderProtocol, Connection]:
        protocol, transport = self.factory.buildProtocol(None), Connection(uid)
        protocol.makeConnection(transport)
        return protocol, transport

    def ask(self, line: bytes = b'{"ask": "x"}\n', uid: int = 1000) -> Connection:
        protocol, transport = self.connect(uid)
        protocol.dataReceived(line)
        protocol.connectionLost()
        return transport

    def test_answered(self) -> None:
        """One question has one answer, which goes to whom the kernel names; no more is read."""
        protocol, transport = self.connect(1234)
        protocol.dataReceived(b'{"ask"')
        protocol.dataReceived(b': "x"}\n{"ask": "y"}\n')
        self.assertEqual(transport.answer(), {"uid": 1234, "asked": {"ask": "x"}})
        protocol.connectionLost()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_refused(self) -> None:
        """A refusal says why, to the program and in the log."""
        self.answers.refusal = Denied("not so", reason="no_account")
        with capturedLogs() as logs:
            answer = self.ask().answer()
        self.assertEqual(answer, {"error": {"reason": "no_account", "text": "not so"}})
        (line,) = logs
        self.assertEqual((line["uid"], line["reason"]), (1000, "no_account"))

    def test_no_question(self) -> None:
        """Bytes that are no object on a line are refused; the question is never asked."""
        for line in (b"\n", b"[]\n", b"null\n", b"{\n", b"\xff\xfe\n", b"[" * 200 + b"\n"):
            self.assertEqual(self.ask(line).answer()["error"]["reason"], "malformed", line)
        self.assertEqual(self.answers.given, [])

    def test_too_long(self) -> None:
        """What is longer than any question is refused, with or without an end."""
        for line in (b"x" * (MAX_QUESTION + 1), b"x" * 70_000, b"x" * 300 + b"\n"):
            self.assertIn(str(MAX_QUESTION), self.ask(line).answer()["error"]["text"])

    def test_slow(self) -> None:
        """Who asks nothing is cut off, and who is answered too late as well."""
        _, transport = self.connect()
        protocol, slow = self.connect()
        self.answers.is_slow = True
        protocol.dataReceived(b"{}\n")
        self.clock.advance(DEADLINE_SECS - 0.1)
        self.assertFalse(transport.is_aborted)
        self.clock.advance(0.2)
        self.assertEqual((transport.is_aborted, slow.is_aborted), (True, True))
        protocol.connectionLost()
        self.answers.waits.callback(None)
        self.assertEqual(slow.value(), b"")

    def test_descriptors(self) -> None:
        """One descriptor is kept until the answer, all others are closed at once."""
        made = [os.open(os.devnull, os.O_RDONLY) for _ in range(4)]
        protocol, _ = self.connect()
        self.answers.is_slow = True
        for descriptor in made[:2]:
            protocol.fileDescriptorReceived(descriptor)
        protocol.dataReceived(b"{}\n")
        protocol.fileDescriptorReceived(made[2])
        self.assertEqual(self.answers.given, [made[0]])
        self.assertEqual([is_open(one) for one in made[:3]], [True, False, False])
        self.answers.waits.callback(None)
        self.assertFalse(is_open(made[0]))
        left, _ = self.connect()
        left.fileDescriptorReceived(made[3])
        left.connectionLost()
        self.assertFalse(is_open(made[3]))

    def test_connections_of_one_user(self) -> None:
        """A user has so many connections; another one is not kept from asking."""
        held = [self.connect() for _ in range(MAX_OF_USER)]
        self.assertIn("has 16 connections", self.ask().answer()["error"]["text"])
        self.assertEqual(self.ask(uid=1001).answer()["uid"], 1001)
        held[0][0].connectionLost()
        self.assertEqual(self.ask().answer()["uid"], 1000)

    def test_connections_of_many(self) -> None:
        """When there are too many the oldest is cut off; whoever asks at once is answered."""
        held = [self.connect(uid)[1] for uid in range(MAX_CONNECTIONS)]
        self.assertEqual(self.ask(uid=5000).answer()["uid"], 5000)
        self.assertEqual([one.is_aborted for one in held[:2]], [True, False])

    def test_often(self) -> None:
        """Who asks too often is told when to ask again, and does not fill the log."""
        for _ in range(int(QUESTIONS.burst)):
            self.ask()
        with capturedLogs() as logs:
            refusals = [self.ask().answer()["error"] for _ in range(100)]
        self.assertEqual({one["reason"] for one in refusals}, {"too_many_requests"})
        self.assertIn("try again in 1 s", refusals[0]["text"])
        self.assertLess(len(logs), 50)
        self.assertEqual(self.ask(uid=1001).answer()["uid"], 1001)
        self.clock.advance(1)
        self.assertEqual(self.ask().answer()["uid"], 1000)


def is_open(descriptor: int) -> bool:
    """Whether it is."""
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
