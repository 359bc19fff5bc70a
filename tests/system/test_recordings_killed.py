"""Recordings whose Connector or Authority is killed, or that cannot be written."""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.gateway import make_gateway
from svc.testing.gateway.processes import until
from svc.testing.gateway.settings import POLICY
from tests.support.proof import proves
from tests.support.tools import stock_tool
from tests.system.gated_ssh import GATED, GatedHost, gated_target
from tests.system.world import sshd

RUN_BY = "make fault"
SESSION = 1 << 16


@cache
def _host() -> GatedHost:
    """A gateway of this module's own, with little room for a session."""
    host = sshd()
    numbers = {"recordings.session_max_bytes": SESSION}
    gateway = make_gateway([gated_target(host)], policy=POLICY, numbers=numbers)
    person = gateway.add_person("ada", "ops")
    person.up(GATED)
    return GatedHost(gateway, host, person)


class KilledTests(SynchronousTestCase):
    """Nothing that was recorded is lost, and how it ended is known."""

    def setUp(self) -> None:
        self.host = _host()
        self.gateway = self.host.gateway
        self.before = {one["id"] for one in self.listed()}

    def listed(self) -> list[Any]:
        found: list[Any] = self.gateway.operator("recordings", "list", "--json").json
        return found

    def new(self, state: str) -> Any:
        """The recording of this test, once it is in this state."""

        def found() -> list[Any]:
            try:
                listed = self.listed()
            except AssertionError:
                return []
            return [x for x in listed if x["id"] not in self.before and x["state"] == state]

        return until(f"a recording that is {state}", found, 60)[0]

    def printed(self, one: Any) -> str:
        """What it says was printed."""
        said = self.gateway.operator("recordings", "export", one["id"], "--out", "-").stdout
        _, *events = map(json.loads, said.splitlines())
        return "".join(text for _, code, text in events if code == "o")

    def begun(self, command: str) -> subprocess.Popen[bytes]:
        """Stock ssh with a terminal, that has said a first line."""
        words = [stock_tool("ssh"), *self.host.options("-tt"), GATED, command]
        running = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.host.environ,
        )
        self.addCleanup(running.wait)
        self.addCleanup(running.kill)
        assert running.stdout is not None
        self.assertEqual(running.stdout.readline(), b"first\r\n")
        return running

    @property
    def buffers(self) -> Path:
        """Where the Connector keeps what was not confirmed."""
        return self.gateway.files.state("connector") / "recordings"

    def awaited_empty(self) -> None:
        """The Connector has removed what was confirmed."""
        until("an empty buffer", lambda: not list(self.buffers.glob("*.rec")), 30)

    @proves("G-SES-14")
    def test_connector(self) -> None:
        """What a killed Connector had written is brought by its next life, as cut short."""
        self.begun("echo first; exec cat")
        one = self.new("receiving")
        until("it is on its way", lambda: self.printed(one), 20)
        self.gateway.child("connector").kill()
        self.gateway.start("connector")
        one = self.new("cut_short")
        self.assertEqual((one["reason"], self.printed(one)), ("unfinished", "first\r\n"))
        self.awaited_empty()

    @proves("G-SES-14")
    def test_authority(self) -> None:
        """What was recorded while Authority was gone arrives when it is back, whole."""
        running = self.begun("echo first; read x; echo second; read x; echo third")
        self.new("receiving")
        assert running.stdin is not None
        assert running.stdout is not None
        self.gateway.child("authority").kill()
        running.stdin.write(b"\n")
        running.stdin.flush()
        running.stdout.readline()
        self.assertIn(b"second", running.stdout.readline())
        self.gateway.start("authority")
        running.stdin.write(b"\n")
        running.stdin.flush()
        running.wait(60)
        one = self.new("complete")
        printed = self.printed(one)
        self.assertIn("second\r\n", printed)
        self.assertIn("third\r\n", printed)
        self.awaited_empty()

    def test_limit(self) -> None:
        """A session that has recorded all it may ends, and its person is told why."""
        running = self.begun("echo first; yes")
        _, told = running.communicate(timeout=60)
        self.assertEqual(running.returncode, 255)
        self.assertIn(b"reason recording_failed", told)
        one = self.new("cut_short")
        self.assertEqual(one["reason"], "session_limit")

        def ended() -> list[Any]:
            told = self.gateway.decision(one["decision_id"])
            return [each["reason"] for each in told if each["event"] == "session.end"]

        self.assertEqual(until("the end", ended), ["recording_failed"])

    def test_no_disk(self) -> None:
        """Where nothing can be written no session opens, but for those who may go unrecorded."""
        self.awaited_empty()
        self.buffers.rmdir()
        self.buffers.touch()
        self.addCleanup(self.buffers.unlink)
        done = self.host.ssh("true")
        self.assertEqual(done.status, 255)
        self.assertIn("recording_unavailable", done.stderr)
