"""What a newcomer types at a running gateway, and what the commands answer."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import threading

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.processes import environment, svc_command
from svc.testing.settings import AUTHORITY
from tests.system.common import ada, eve, shared


class PersonTests(SynchronousTestCase):
    """The person's commands."""

    def test_resource_of_another_kind(self) -> None:
        """Whoever names a tcp resource as if it were ssh is told its kind, and nobody else is."""
        told = ada().svc("proxy-ssh", "echo")
        self.assertEqual((told.status, told.stdout), (1, ""))
        self.assertIn("svc: echo: is a tcp resource; run this with --kind tcp; ", told.stderr)
        self.assertNotIn("no Connector", told.stderr)
        through = ada().svc("proxy-ssh", "echo", "--kind", "tcp", stdin=b"word")
        self.assertEqual((through.status, through.stdout), (0, "word"), through.stderr)
        for name in ("echo", "nothing-here"):
            stranger = eve().svc("proxy-ssh", name)
            self.assertEqual((stranger.status, stranger.stdout), (1, ""))
            self.assertNotIn("tcp", stranger.stderr)


class AuditTests(SynchronousTestCase):
    """The log, as it is looked at."""

    def test_followed(self) -> None:
        """A record is shown while the command runs, as soon as it is there, if it is asked for."""
        config = str(shared().files.config(AUTHORITY))
        words = svc_command(
            "--config", config, "authority", "audit", "show", "--follow", "--json",
            "--event", "group.add", "--last", "1",
        )  # fmt: skip
        following = subprocess.Popen(words, stdout=subprocess.PIPE, env=environment(ada().home, {}))
        out = following.stdout
        assert out is not None
        self.addCleanup(out.close)
        lines = queue.Queue[bytes]()

        def read() -> None:
            for line in out:
                lines.put(line)

        reading = threading.Thread(target=read)
        reading.start()
        # In the opposite order: what reads ends when the process has.
        self.addCleanup(reading.join)
        self.addCleanup(following.wait)
        self.addCleanup(following.kill)
        shared().operator("groups", "add", "followed-1")
        first = json.loads(lines.get(timeout=30))
        shared().operator("persons", "list")
        shared().operator("groups", "add", "followed-2")
        second = json.loads(lines.get(timeout=30))
        self.assertEqual((first["event"], second["event"]), ("group.add", "group.add"))
        self.assertGreater(second["seq"], first["seq"])
        following.send_signal(signal.SIGINT)
        self.assertEqual(following.wait(30), 130)
