"""How a session of ssh that ends at the Connector ended, by stock ssh: in order, or not."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.processes import until
from tests.support.tools import stock_tool
from tests.system.gated_ssh import GATED, GatedHost, gated_host
from tests.system.piped import ITSELF

RUN_BY = "make fault"


def to_ssh(running: subprocess.Popen[bytes]) -> None:
    """As kill does."""
    running.send_signal(signal.SIGINT)


def to_both(running: subprocess.Popen[bytes]) -> None:
    """As Ctrl-C does: the terminal's signal reaches ssh and its ProxyCommand."""
    os.killpg(running.pid, signal.SIGINT)


class SshEndingTests(SynchronousTestCase):
    """Each with the session carried by the resident, and by ``svc proxy-ssh`` itself."""

    @property
    def host(self) -> GatedHost:
        return gated_host()

    def ways(self) -> dict[str, list[str]]:
        """What ssh is told first, by who carries its session."""
        setting = " ".join(f"{name}={value}" for name, value in ITSELF.items())
        command = self.host.person.proxy_command("--user", "%r")
        return {"resident": [], "itself": [f"-oProxyCommand=env {setting} {command}"]}

    def begun(self, way: list[str], *words: str) -> subprocess.Popen[bytes]:
        """An ssh with a process group of its own, as a shell starts it."""
        running = subprocess.Popen(
            [stock_tool("ssh"), *way, *self.host.options(), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.host.environ,
            start_new_session=True,
        )
        self.addCleanup(running.communicate)
        self.addCleanup(running.kill)
        return running

    def reason(self, said: str) -> str:
        """Why the session that ssh told of ended, by the audit log."""
        found = re.search("decision ([0-9a-f]{32})", said)
        assert found is not None, said

        def ended() -> list[Any]:
            told = self.host.gateway.decision(found[1])
            return [one["reason"] for one in told if one["event"] == "session.end"]

        [reason] = until("the end of the session", ended, 60)
        return str(reason)

    def said(self, running: subprocess.Popen[bytes]) -> str:
        """All of its stderr; it and its ProxyCommand have ended then."""
        assert running.stderr is not None
        return running.stderr.read().decode()

    def test_in_order(self) -> None:
        """A command that succeeds, and one that fails, end the session in order."""
        for name, way in self.ways().items():
            for status in (0, 3):
                done = self.host.ssh(f"exit {status}", options=way)
                self.assertEqual(done.status, status, (name, done.stderr))
                self.assertEqual((name, self.reason(done.stderr)), (name, "closed"))

    def test_interrupted(self) -> None:
        """An ssh that only forwards, and is interrupted, takes its leave."""
        forwarded = self.host.person.home / "forwarded.sock"
        leads = f"{forwarded}:127.0.0.1:{self.host.echo}"
        for name, way in self.ways().items():
            for interrupt in (to_ssh, to_both):
                forwarded.unlink(missing_ok=True)
                running = self.begun(way, "-N", "-L", leads, GATED)
                until("the forwarding", forwarded.exists, 60)
                with socket.socket(socket.AF_UNIX) as asking:
                    asking.settimeout(60)
                    asking.connect(str(forwarded))
                    asking.sendall(b"there")
                    self.assertEqual(asking.recv(9), b"there")
                interrupt(running)
                said = self.said(running)
                self.assertEqual(running.wait(), 255)
                case = (name, interrupt.__name__)
                self.assertEqual((*case, self.reason(said)), (*case, "closed"))

    def test_killed(self) -> None:
        """An ssh that is killed has taken no leave."""
        for name, way in self.ways().items():
            running = self.begun(way, GATED, "echo begun; read line")
            assert running.stdout is not None
            self.assertEqual(running.stdout.readline(), b"begun\n")
            running.kill()
            said = self.said(running)
            self.assertEqual((name, self.reason(said)), (name, "cancelled"))
            self.assertNotIn("session ended", said)
