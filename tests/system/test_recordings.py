"""Recordings of SSH sessions, from a stock ssh to an operator, in real processes."""

from __future__ import annotations

import json
import subprocess
from hashlib import sha256
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.processes import TIMEOUT_SECS, Ran, run, until
from svc.testing.gateway.settings import AUTHORITY, POLICY
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

    def test_new_key(self) -> None:
        """With a new key sessions are recorded, and what was recorded before is read as well."""
        gateway = self.host.gateway
        before = self.recording(self.host.ssh("echo before"))
        authority = gateway.child(AUTHORITY)
        with subprocess.Popen(
            [stock_tool("ssh"), *self.host.options(), GATED, "read line; echo amid $line"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.host.environ,
        ) as running:
            self.addCleanup(running.kill)
            assert running.stderr is not None
            opened = running.stderr.readline().decode()
            digest = gateway.operator("recordings", "rotate-key", "--json").json["key_sha256"]

            def is_taken() -> bool:
                told = authority.events("recordings are sealed to a newer key")
                return digest in [one["sha256"] for one in told]

            until("the new key", is_taken)
            after = self.recording(self.host.ssh("echo after"))
            said, _ = running.communicate(b"it\n", TIMEOUT_SECS)
        self.assertEqual(said, b"amid it\n")
        amid = self.recording(Ran(words=(), status=0, stdout=opened, stderr=""))
        for one, text in ((before, b"before"), (amid, b"amid it"), (after, b"after")):
            self.assertIn(text, self.exported(one))
        keys = gateway.files.state(AUTHORITY) / "keys"
        former = [
            path
            for path in keys.glob("recording-*.key")
            if path.read_bytes() != (keys / "recording.key").read_bytes()
        ]
        for path in former:
            aside = keys.with_name(path.name)
            path.rename(aside)
            self.addCleanup(aside.rename, path)

        def is_refused() -> bool:
            words = ("recordings", "export", before["id"], "--out", "-")
            return "bring recording-" in gateway.operator(*words, check=False).stderr

        until("the key is gone", is_refused)
        self.assertIn(b"after", self.exported(after))

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
