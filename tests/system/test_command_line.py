"""What a newcomer types at a running gateway, and what the commands answer."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway import make_gateway
from svc.testing.postgres import USER
from svc.testing.processes import environment, run, svc_command
from svc.testing.settings import AUTHORITY, Target
from tests.fault.tcp import FaultProxy
from tests.postgres import own_server
from tests.system.common import ada, eve, shared
from tests.tools import stock_tool


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


class DatabaseTests(SynchronousTestCase):
    """A database behind the gateway, as stock tools open it."""

    def test_psql_over_the_socket(self) -> None:
        """Stock psql finds the resident's socket in the directory that the listing names."""
        psql, server = stock_tool("psql"), own_server(self)
        way = FaultProxy(f"{server.directory}/.s.PGSQL.5432")
        self.addCleanup(way.close)
        gateway = make_gateway([Target("db1", way.address)])
        self.addCleanup(gateway.end)
        person = gateway.add_person("ada", "ops")
        resident = person.up("db1")
        self.addCleanup(resident.stop)
        (listed,) = person.listed()
        words = [psql, "-h", listed["directory"], "-U", USER, "-d", "postgres", "-Atc"]
        told = run([*words, "SELECT 6 * 7"], person.home)
        self.assertEqual((told.status, told.stdout), (0, "42\n"), told.stderr)
        self.assertEqual(listed["directory"], str(person.directory / "run" / "db1"))
        resident.stop()
        self.assertNotIn("db1", os.listdir(person.directory / "run"))


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
