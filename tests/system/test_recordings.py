"""Recordings of SSH sessions, from a stock ssh to an operator, in real processes."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.processes import Ran, run
from svc.testing.gateway.settings import POLICY
from tests.support.proof import proves
from tests.support.tools import stock_tool
from tests.system.gated_ssh import GATED, GatedHost, gated_host, recording_of

RUN_BY = "make fault"


class RecordingTests(SynchronousTestCase):
    """What a session did is kept centrally, and read by operators."""

    @property
    def host(self) -> GatedHost:
        return gated_host()

    def recording(self, done: Ran) -> dict[str, Any]:
        """See :func:`tests.system.gated_ssh.recording_of`."""
        return recording_of(self.host.gateway, done)

    def exported(self, one: dict[str, Any]) -> bytes:
        """The recording itself."""
        said = self.host.gateway.operator("recordings", "export", one["id"], "--out", "-")
        return said.stdout.encode("utf-8")

    @proves("G-SES-14")
    @proves("G-OPEN-74")
    def test_terminal(self) -> None:
        """A terminal's output is recorded as asciicast v2, and its record names the SHA-256."""
        options = self.host.options("-tt")
        words = [stock_tool("ssh"), *options, GATED, "stty size; echo h\u00e9llo; read x; exit 2"]
        quoted = " ".join(f"'{word}'" for word in words)
        script = [stock_tool("script"), "-qec", f"stty rows 33 cols 99; {quoted}", "/dev/null"]
        done = run(script, self.host.person.home, stdin=b"hush\n", seconds=60)
        self.assertEqual(done.status, 2, done.stdout)
        one = self.recording(done)
        cast = self.exported(one)
        self.assertEqual(sha256(cast).hexdigest(), one["sha256"])
        head, *events = map(json.loads, cast.decode().splitlines())
        self.assertEqual((head["version"], head["width"], head["height"]), (2, 99, 33))
        printed = "".join(text for _, code, text in events if code == "o")
        self.assertIn("33 99\r\nh\u00e9llo\r\n", printed)
        self.assertNotIn("i", {code for _, code, _ in events})
        told = self.host.gateway.decision(one["decision_id"])
        [record] = [each for each in told if each["event"] == "recording.delivered"]
        self.assertEqual(record["session_uid"], one["session_uid"])
        self.assertEqual(record["details"]["recording_sha256"], one["sha256"])
        self.assertEqual(record["details"]["recording_state"], "complete")

    def test_reading(self) -> None:
        """Reading one needs a right and is on record first; playing shows text and no more."""
        done = self.host.ssh("printf 'plain\\033]52;c;aGk=\\007\\033[31mred\\n'")
        one = self.recording(done)
        operator = self.host.gateway.operator
        shown = operator("recordings", "show", one["id"], "--json").json
        self.assertEqual(shown, one)
        played = operator("recordings", "play", one["id"], "--idle", "0").stdout
        self.assertTrue(played.startswith("plain\x1b[31mred"), played)
        self.assertNotIn("52;c", played)
        out = self.host.gateway.directory / f"{one['id']}.cast"
        told = operator("recordings", "export", one["id"], "--out", str(out), "--json").json
        self.assertEqual(sha256(out.read_bytes()).hexdigest(), told["sha256"])
        reads = [
            each
            for each in self.host.gateway.decision(one["decision_id"])
            if each["event"] == "recording.read"
        ]
        self.assertEqual(len(reads), 2)
        self.host.gateway.set_policy(
            POLICY + '@id("no") forbid (principal, action == Action::"viewRecordings", resource);'
        )
        self.addCleanup(self.host.gateway.set_policy, POLICY)
        refused = operator("recordings", "play", one["id"], check=False)
        self.assertNotEqual(refused.status, 0)
        self.assertIn("viewRecordings", refused.stderr)

    def test_files(self) -> None:
        """Transferred files are told by their paths; a removed recording stays on record."""
        there = self.host.person.home / "copied"
        words = [stock_tool("scp"), *self.host.options(), "/etc/hostname", f"{GATED}:{there}"]
        done = run(words, self.host.person.home, seconds=60).checked()
        one = self.recording(done)
        self.assertEqual(one["recorded_as"], "json-lines")
        lines = [json.loads(line) for line in self.exported(one).splitlines()]
        self.assertIn(("open", str(there)), {(x.get("operation"), x.get("path")) for x in lines})
        operator = self.host.gateway.operator
        operator("recordings", "remove", one["id"], "--reason", "asked to")
        gone = operator("recordings", "show", one["id"], check=False)
        self.assertEqual(gone.status, 1)
        events = {each["event"] for each in self.host.gateway.decision(one["decision_id"])}
        self.assertIn("recording.removed", events)
