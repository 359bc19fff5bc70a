"""``svc proxy-ssh`` beside a running ``svc up``, which carries its session."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import run, until
from tests.support.proof import proves
from tests.support.tools import stock_tool
from tests.system.piped import ITSELF, ProxySsh
from tests.system.world import World, sshd, world


class HandedOverTests(SynchronousTestCase):
    """Four processes, and a resident that has its own session open meanwhile."""

    def setUp(self) -> None:
        self.await_none()

    @property
    def world(self) -> World:
        return world("four")

    @property
    def person(self) -> GatewayPerson:
        return self.world.person

    def command(self, resource: str = "echo", **environ: str) -> ProxySsh:
        command = ProxySsh(self.person, resource, environ)
        self.addCleanup(command.close)
        return command

    def carried(self) -> int:
        """How many sessions the resident carries."""
        return int(self.person.status()["sessions"])

    def await_none(self) -> None:
        until("no session", lambda: self.carried() == 0)

    @proves("X-37")
    def test_half_close(self) -> None:
        """The resident carries the session, and each way ends when the other end says so."""
        command = self.command()
        command.open()
        self.assertEqual(self.carried(), 1)
        os.write(command.given, b"there")
        os.close(command.given)
        command.given = os.open(os.devnull, os.O_RDONLY)
        said = b""
        while piece := os.read(command.output, 4096):
            said += piece
        self.assertEqual((said, command.process.wait(20)), (b"there", 0))
        told = os.read(command.errors, 4096).decode()
        self.assertRegex(told, r"\Asvc: echo: session open, decision [0-9a-f]{32}\n\Z")
        self.await_none()

    def test_ssh(self) -> None:
        """Stock ssh brings a command's output and status back, with and without the resident."""
        stock_tool("sshd")
        for environ in ({}, ITSELF):
            words = [*sshd().tool("ssh", self.person), "host", "cat; printf err >&2; exit 7"]
            done = run(words, self.person.home, environ, stdin=b"x" * 300_000, seconds=60)
            self.assertEqual((done.status, done.stdout), (7, "x" * 300_000), done.stderr)
            self.assertIn("err", done.stderr)
            self.assertIn("svc: host: session open, decision ", done.stderr)

    def test_by_itself(self) -> None:
        """A command with settings of its own carries its session itself."""
        command = self.command(**ITSELF)
        command.open()
        self.assertEqual(self.carried(), 0)

    @proves("U-PHA-27")
    def test_denied(self) -> None:
        """A denial stands on stderr in the same words, with its decision, and nothing on stdout."""
        told = []
        for environ in ({}, ITSELF):
            command = self.command("vault", **environ)
            command.start()
            said = command.said()
            self.assertEqual(command.process.wait(20), 1)
            found = re.search(r"svc why ([0-9a-f]{32})", said)
            assert found is not None, said
            self.assertEqual(self.world.gateway.decision(found[1])[0]["decision"], "deny")
            told.append(said.replace(found[1], "…"))
        self.assertEqual(told[0], told[1])
        self.assertIn("reason denied", told[0])
        self.assertEqual(self.person.refused("vault")["reason"], "denied")

    def test_another_kind(self) -> None:
        """Of a resource that is of another kind it is said which."""
        command = self.command("host")
        command.start()
        self.assertIn("run this with --kind ssh", command.said())
        self.assertEqual(command.process.wait(20), 1)

    def test_ended_from_outside(self) -> None:
        """A command that is told to go ends its session; what it says is what it always said."""
        for number, status, said in (
            (signal.SIGINT, 130, "svc: interrupted\n"),
            (signal.SIGTERM, 130, "svc: interrupted\n"),
            (signal.SIGHUP, -signal.SIGHUP, ""),
            (signal.SIGKILL, -signal.SIGKILL, ""),
        ):
            if signal.getsignal(number) is signal.SIG_IGN:
                continue  # of a run in the background; what it starts ignores it too
            command = self.command()
            command.open()
            command.process.send_signal(number)
            self.assertEqual(command.process.wait(20), status)
            self.assertTrue(command.said_so_far().endswith(said))
            command.let_go()
            self.await_none()

    def test_a_resident_that_goes(self) -> None:
        """A session whose resident stops, or is killed, says so and ends with 1."""
        person = self.person
        assert person.resident is not None
        ends: tuple[Callable[[], Any], ...] = (person.resident.stop, person.resident.kill)
        for end in ends:
            command = self.command()
            command.open()
            self.assertEqual(self.carried(), 1)
            end()
            self.assertEqual(command.process.wait(20), 1)
            self.assertIn("session ended: svc up, which carried it, has stopped", command.said())
            later = self.command()
            later.open()
            person.up("echo")
