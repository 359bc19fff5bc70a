"""What a newcomer types at a running gateway, and what the commands answer."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.gateway import make_gateway
from svc.testing.gateway.postgres import USER
from svc.testing.gateway.processes import Child, Ran, run, svc_command, until
from svc.testing.gateway.settings import AUTHORITY, GatewayTarget
from tests.fault.tcp import FaultProxy
from tests.support.postgres import run_socket
from tests.support.tools import stock_tool
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

    def test_nothing_to_sign_out_of(self) -> None:
        """Whoever joined by a token is told that no sign-in ends, and what to do instead."""
        told = ada().svc("logout")
        self.assertEqual(told.status, 1)
        self.assertIn("there is no sign-in to end: this identity came by a join token", told.stderr)
        self.assertTrue((ada().directory / "identity").exists())


class DatabaseTests(SynchronousTestCase):
    """A database behind the gateway, as stock tools open it."""

    def test_psql_over_the_socket(self) -> None:
        """Stock psql finds the resident's socket in the directory that the listing names."""
        psql, way = stock_tool("psql"), FaultProxy(run_socket())
        self.addCleanup(way.close)
        gateway = make_gateway([GatewayTarget("db1", way.address)])
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
        shared().operator("groups", "add", "followed-0")
        following = self.following("--json")
        before = json.loads(self.line(following, 0))
        shared().operator("groups", "add", "followed-1")
        first = json.loads(self.line(following, 1))
        shared().operator("persons", "list")
        shared().operator("groups", "add", "followed-2")
        second = json.loads(self.line(following, 2))
        self.assertEqual({each["event"] for each in (before, first, second)}, {"group.add"})
        self.assertLess(before["seq"], first["seq"])
        self.assertLess(first["seq"], second["seq"])
        following.signal(signal.SIGINT)
        self.assertEqual(following.wait(), 130)

    def following(self, *words: str) -> Child:
        """A command that shows each new group, and the last one."""
        config, log = str(shared().files.config(AUTHORITY)), Path(os.path.abspath(self.mktemp()))
        command = svc_command("--config", config, "authority", "audit", "show", "--follow", *words)
        following = Child(
            name="audit-show",
            words=[*command, "--event", "group.add", "--last", "1"],
            home=ada().home,
            log=log,
        )
        following.start()
        self.addCleanup(following.end)
        return following

    def line(self, following: Child, number: int) -> str:
        """A line of what it says, waited for while it runs."""

        def said() -> str | None:
            lines = following.text().split("\n")[:-1]
            return lines[number] if number < len(lines) else None

        return until(f"line {number}", said, alive=[following])

    def test_followed_in_lines(self) -> None:
        """Without --json it is one line a record, below the heads, while the command runs."""
        shared().operator("groups", "add", "followed-3")
        following = self.following()
        heads, before = self.line(following, 0), self.line(following, 1)
        shared().operator("groups", "add", "followed-4-with-a-longer-name")
        after = self.line(following, 2)
        self.assertTrue(heads.startswith("TIME  "))
        self.assertRegex(before, r" group\.add .*  group followed-3  ")
        self.assertRegex(after, r" group\.add .*  group followed-4-with-a-longer-name  -  ")


class OperatorTests(SynchronousTestCase):
    """The operator's commands, as a newcomer tries them: mistakes included."""

    def operator(self, *words: str, stdin: bytes = b"") -> Ran:
        """Run one of the Authority's commands; whatever its status is."""
        config = str(shared().files.config(AUTHORITY))
        return run(svc_command("--config", config, "authority", *words), ada().home, stdin=stdin)

    def test_nobody_is_widened_in_silence(self) -> None:
        """A group that is not there, or one more for who is there, is refused with advice."""
        typed = self.operator("persons", "add", "ivo", "--group", "opz")
        self.assertEqual((typed.status, typed.stdout), (1, ""))
        create = f"svc --config {shared().files.config(AUTHORITY)} authority groups add opz"
        said = f"svc: group opz: does not exist; create it with `{create}`"
        self.assertIn(said, typed.stderr)
        self.operator("groups", "add", "opz").checked()
        self.operator("persons", "add", "ivo", "--group", "opz").checked()
        wider = self.operator("persons", "add", "ivo", "--group", "ops")
        self.assertEqual((wider.status, wider.stdout), (1, ""))
        self.assertIn("svc: person ivo: already exists, in opz; to add ivo to ops", wider.stderr)
        listed = self.operator("persons", "list", "--json").checked().json
        self.assertEqual([one["groups"] for one in listed if one["name"] == "ivo"], [["opz"]])

    def test_policies(self) -> None:
        """The same text is no new version; a wrong one is told with its place."""
        shown = self.operator("policy", "show", "--json").checked().json
        text = str(shown["text"])
        again = self.operator("policy", "set", "-", stdin=text.encode())
        self.assertEqual((again.status, again.stderr), (0, ""))
        self.assertEqual(
            again.stdout,
            f"policy version {shown['policy_version']} with this text is already in force; "
            "nothing changed\n",
        )
        wrong = (
            text + '@id("late")\npermit (principal, action, resource)\nwhen { context.hour < };\n'
        )
        refused = self.operator("policy", "set", "-", stdin=wrong.encode())
        self.assertEqual((refused.status, refused.stdout), (1, ""))
        line = wrong.count("\n")
        self.assertIn(f"policy: line {line}, column 23: unexpected token `}}`", refused.stderr)

    def test_the_log_is_looked_at(self) -> None:
        """Ten records are ten lines under their heads, and are found by who and what."""
        shown = self.operator("audit", "show", "--last", "10").checked()
        self.assertEqual(len(shown.stdout.splitlines()), 11)
        self.operator("groups", "add", "looked-at").checked()
        (found,) = self.operator(
            "audit", "show", "--event", "group.add", "--since", "1h", "--last", "1", "--json"
        ).json
        self.assertEqual(found["details"]["group"], "looked-at")

    def test_a_line_says_of_whom(self) -> None:
        """Each change that an operator makes is told in one line with whom or what it changed."""
        self.operator("nodes", "add", "line-node", "--role", "connector").checked()
        self.operator("persons", "add", "line-person").checked()
        shown = self.operator("policy", "show", "--json").checked().json
        text = f"{shown['text']}\n// once more\n"
        self.operator("policy", "set", "-", stdin=text.encode()).checked()
        made = shown["policy_version"] + 1
        lines = self.operator("audit", "show", "--last", "1000").checked().stdout.splitlines()
        # Other modules change policies and nodes of this gateway as well, some of them twice.
        for event, about in (
            ("token.create", "connector line-node"),
            ("person.add", "line-person"),
            ("token.create", "line-person"),
            ("policy.activate", f"version {made}"),
            ("ca.activate", "transport generation 1"),
            ("node.enroll", "proxy proxy"),
        ):
            pattern = f"{re.escape(event)} .*  {re.escape(about)}  "
            self.assertTrue(any(re.search(pattern, one) for one in lines), pattern)
        self.assertEqual({len(re.split(r" {2,}", one)) for one in lines}, {8})

    def test_an_anchor_that_proves_nothing(self) -> None:
        """A heads file without a head is refused, whatever it is."""
        for path, said in (("/dev/null", "is neither a file nor a pipe"),):
            refused = self.operator("audit", "verify", "--anchor", path)
            self.assertEqual((refused.status, refused.stdout), (6, ""))
            self.assertIn(f"svc: audit anchor: {path}: {said}", refused.stderr)

    def test_a_kind_that_is_not_there(self) -> None:
        """`svc init` writes nothing for a kind that no gateway starts with."""
        there = ada().home / "gate"
        words = ("init", str(there), "--resource", "web=http:127.0.0.1:80")
        refused = run(svc_command(*words), ada().home)
        self.assertEqual((refused.status, refused.stdout), (64, ""))
        self.assertIn(
            "unknown kind http; the kinds are kube, postgres, ssh, tcp, web", refused.stderr
        )
        self.assertFalse(there.exists())


class RetryTests(SynchronousTestCase):
    """A client that is refused and does not give up."""

    def test_collapsed(self) -> None:
        """Seven refusals are one line of the log and one of `svc status --explain`."""
        person = shared().add_person("kai", "ops")
        resident = person.up()
        self.addCleanup(resident.stop)
        host, port = person.endpoint("vault")
        for _ in range(7):
            with contextlib.suppress(OSError), socket.create_connection((host, port), 10) as one:
                one.settimeout(10)
                one.recv(1)
        counted = until("all are counted", lambda: person.refused("vault")["count"] == 7)
        self.assertTrue(counted)
        told = person.svc("status", "--explain").checked().stdout
        (line,) = [one for one in told.splitlines() if " vault: " in one]
        self.assertRegex(line, r"7 times since 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z; ")
        logged = (person.home / "up.log").read_text().splitlines()
        self.assertEqual(len([one for one in logged if '"session refused"' in one]), 1)
