"""The fork server of the tests: its children are what a start from nothing would be."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from pathlib import Path
from shutil import rmtree

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.forking import Forked, fork
from svc.testing.gateway.processes import Child, begun, environment, run, svc_command, until


class ForkTests(SynchronousTestCase):
    """Commands that do not stay, and one that does."""

    def setUp(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="svc-fork-"))
        self.addCleanup(rmtree, self.home, True)

    def waiting(self) -> tuple[Forked, int]:
        """A command that waits for its stdin, and the descriptor that ends it."""
        given, giving = os.pipe()
        self.addCleanup(os.close, giving)
        words = ["--config", "none.toml", "authority", "policy", "set", "-"]
        with open(os.devnull, "wb") as nothing:
            standard = [given, nothing.fileno(), nothing.fileno()]
            try:
                return fork(words, words, environment(self.home), self.home, standard, True), giving
            finally:
                os.close(given)

    def test_what_a_command_leaves(self) -> None:
        """Status, stdout and stderr are those of the command started from nothing."""
        made = ["init", "made", "--for", "connector", "--ca-pin", "0" * 64]
        for words in (["--version"], ["nonsense"], ["status"], made):
            forked = run(svc_command(*words), self.home)
            rmtree(self.home / "made", True)
            self.patch(os, "environ", {**os.environ, "SVC_TEST_EXEC": "1"})
            self.assertEqual(run(svc_command(*words), self.home), forked)
            rmtree(self.home / "made", True)
            os.environ.pop("SVC_TEST_EXEC")

    def test_nobody_reads(self) -> None:
        """A command whose output nobody reads ends as it does when started from nothing."""

        def status() -> int:
            reading, writing = os.pipe()
            os.close(reading)
            with open(writing, "wb") as out, open(os.devnull, "r+b") as nothing:
                words, home = svc_command("--version"), self.home
                return begun(words, environment(home), home, (nothing, out, nothing)).wait(10)

        forked = status()
        self.patch(os, "environ", {**os.environ, "SVC_TEST_EXEC": "1"})
        self.assertEqual(status(), forked)

    def test_environment(self) -> None:
        """It has the environment it was given, and nothing of ours."""
        self.patch(os, "environ", {**os.environ, "SVC_CONFIG": "ours.toml"})
        command = svc_command("authority", "status")
        self.assertIn("its.toml", run(command, self.home, {"SVC_CONFIG": "its.toml"}).stderr)
        told = run(command, self.home).stderr
        self.assertIn("needs a configuration", told)
        self.assertNotIn(".toml", told)

    def test_running(self) -> None:
        """A child that waits leads its own session, holds three descriptors, ends by a signal."""
        child, _ = self.waiting()
        handles = Path(f"/proc/{child.pid}/fd")
        until("a session of its own", lambda: os.getsid(child.pid) == child.pid)
        until("nothing of the server's", lambda: len(list(handles.iterdir())) <= 4)
        home = str(self.home.resolve())
        until("its directory", lambda: os.readlink(f"/proc/{child.pid}/cwd") == home)
        self.assertIs(child.poll(), None)
        self.assertRaises(subprocess.TimeoutExpired, child.wait, 0.01)
        child.send_signal(signal.SIGKILL)
        self.assertEqual(child.wait(10), -signal.SIGKILL)
        self.assertEqual(child.poll(), -signal.SIGKILL)
        child.kill()  # once more changes nothing

    def test_ended_at_once(self) -> None:
        """A child that is ended before it leads its session ends as well."""
        for number in range(10):
            child = Child(
                name="up", words=svc_command("up"), home=self.home, log=self.home / f"{number}.log"
            )
            child.start()
            child.end()
            self.assertFalse(child.is_alive)

    def test_two_at_once(self) -> None:
        """Each status reaches its own child."""
        (one, _), (other, _) = self.waiting(), self.waiting()
        one.kill()
        self.assertEqual(one.wait(10), -signal.SIGKILL)
        self.assertIs(other.poll(), None)
        other.send_signal(signal.SIGTERM)
        self.assertEqual(other.wait(10), -signal.SIGTERM)


class ChildTests(SynchronousTestCase):
    """What a child has logged."""

    def test_a_line_half_written(self) -> None:
        """A line that is not whole yet, or never will be, is no event; those around it are."""
        home = Path(self.mktemp()).absolute()
        home.mkdir()
        half = '{"message":"half","more":{}'
        said = f"""printf '{{"message":"whole"}}\\n{half}'"""
        child = Child(name="sh", words=["sh", "-c", said], home=home, log=home / "sh.log")
        for times in (1, 2):
            child.start()
            self.assertEqual(child.wait(), 0)
            self.assertEqual([one["message"] for one in child.events()], ["whole"])
            self.assertEqual(len(child.events("whole", whole=True)), times)
            self.assertTrue(child.text().endswith(half))
