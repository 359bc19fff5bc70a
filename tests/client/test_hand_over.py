"""``svc proxy-ssh`` before a resident that a test plays: what it asks, and what it does as told."""

from __future__ import annotations

import json
import os
import socket
import threading
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc import __version__
from svc.cli import LazyGroup
from svc.client import hand_over
from svc.client.hand_over import question_of, read_words
from svc.client.places import CONTROL_SOCKET, file_mark
from svc.testing.gateway.processes import begun, environment, svc_command
from tests.support.proof import proves

BY_ITSELF = "svc join"
"""What the command says by itself, where nobody has joined."""


class WordTests(SynchronousTestCase):
    def test_plain(self) -> None:
        """A plain command line is read as click reads it."""
        for line, config, kind, parameters in (
            ("proxy-ssh db1", None, "ssh", {}),
            ("--config c proxy-ssh --kind tcp db1", "c", "tcp", {}),
            ("proxy-ssh db1 --config=c --kind=tcp", "c", "tcp", {}),
            ("proxy-ssh --dir d db1 --kind=tcp", "d/client.toml", "tcp", {}),
            ("proxy-ssh --user ada db1", None, "ssh", {"login_user": "ada"}),
            ("proxy-ssh --parameter a=b --parameter c= db1", None, "ssh", {"a": "b", "c": ""}),
        ):
            wanted = read_words(line.split())
            assert wanted is not None, line
            self.assertEqual(
                (wanted.config, wanted.resource, wanted.kind, wanted.parameters),
                (config, "db1", kind, parameters),
            )

    def test_not_plain(self) -> None:
        """What is wrong, or unusual, is left to click."""
        for line in (
            "",
            "proxy-ssh",
            "db1 proxy-ssh",
            "proxy-ssh a b",
            "proxy-ssh --help",
            "proxy-ssh -- db1",
            "proxy-ssh --kind",
            "proxy-ssh db1 --kind",
            "proxy-ssh --kind --user x",
            "--kind tcp proxy-ssh db1",
            "proxy-ssh --kind a --kind b db1",
            "-c x proxy-ssh db1",
            "proxy-ssh --parameter a db1",
            "proxy-ssh --parameter a=1 --parameter a=2 db1",
            "proxy-ssh --user x --parameter login_user=y db1",
        ):
            self.assertIsNone(read_words(line.split()), line)

    @given(
        st.lists(
            st.sampled_from(
                ["proxy-ssh", "db1", "--kind", "tcp", "--user=u", "--parameter", "a=b", "--", "-x"]
            ),
            max_size=6,
        )
    )
    def test_as_click_reads_it(self, words: list[str]) -> None:
        """Whatever is read is what click would have read."""
        wanted = read_words(words)
        if wanted is None:
            return
        from svc.cli import svc

        assert isinstance(svc, LazyGroup)
        context = svc.make_context("svc", list(words))
        command = svc.get_command(context, context.protected_args[0])
        assert command is not None
        read = command.make_context("proxy-ssh", list(context.args), parent=context).params
        self.assertEqual((read["name"], read["kind"]), (wanted.resource, wanted.kind))
        pairs = [f"{name}={value}" for name, value in wanted.parameters.items()]
        user = [f"login_user={read['user']}"] if read["user"] else []
        self.assertEqual(sorted([*read["parameters"], *user]), sorted(pairs))

    @given(st.text(max_size=8), st.dictionaries(st.text(max_size=5), st.text(max_size=5)))
    def test_question(self, name: str, parameters: dict[str, str]) -> None:
        """A question is JSON of what was wanted, or there is none."""
        wanted = hand_over.Wanted()
        wanted.resource, wanted.kind, wanted.parameters = name, "ssh", parameters
        question = question_of(wanted, "1:2:3:4")
        if question is not None:
            self.assertEqual(question.count(b"\n"), 1)
            read = json.loads(question)
            self.assertEqual((read["resource"], read["parameters"]), (name, parameters))
            self.assertEqual((read["version"], read["config"]), (__version__, "1:2:3:4"))

    def test_what_is_not_plain(self) -> None:
        """What would need to be escaped, and what is long, is not asked."""
        wanted = hand_over.Wanted()
        for name, is_asked in (("db1", True), ('"', False), ("\\", False), ("ü", False)):
            wanted.resource = name
            self.assertEqual(question_of(wanted, "") is not None, is_asked)
        wanted.resource = "x" * 5000
        self.assertIsNone(question_of(wanted, ""))

    def test_silent(self) -> None:
        """A resident that does not answer in time is not waited for."""
        near, far = socket.socketpair()
        self.addCleanup(far.close)
        self.addCleanup(near.close)
        near.settimeout(0.01)
        conversation = hand_over._Conversation(near, "db1")
        self.assertIsNone(conversation.run(b"{}\n"))


class ProcessTests(SynchronousTestCase):
    """The command as a process, and the resident's socket as a thread of the test."""

    def setUp(self) -> None:
        self.home = Path(self.mktemp()).absolute()
        self.svc = self.home / ".svc"
        self.run_directory = self.svc / "run"
        self.run_directory.mkdir(parents=True)
        self.run_directory.chmod(0o700)
        self.config = self.svc / "client.toml"
        self.config.write_text('[endpoints]\nproxy = ["127.0.0.1:9"]\n')
        self.asked: list[dict[str, Any]] = []

    def serve(self, *answers: bytes, directory: Path | None = None) -> None:
        """Answer one command: each piece in turn, a piece ``go`` is awaited from it."""
        listening = socket.socket(socket.AF_UNIX)
        handle = os.open(directory or self.run_directory, os.O_RDONLY)
        listening.bind(f"/proc/self/fd/{handle}/{CONTROL_SOCKET}")
        os.close(handle)
        listening.listen()
        listening.settimeout(30)

        def once() -> None:
            try:
                caller, _ = listening.accept()
            except OSError:
                return
            with caller:
                data, descriptors, _, _ = socket.recv_fds(caller, 4096, 2)
                self.asked.append(json.loads(data))
                for answer in answers:
                    if answer == b"go\n":
                        assert caller.recv(16) == answer
                        os.write(descriptors[1], os.read(descriptors[0], 64))
                    elif answer == b"end":
                        break
                    else:
                        caller.sendall(answer)
                for each in descriptors:
                    os.close(each)

        thread = threading.Thread(target=once, daemon=True)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(listening.close)
        self.addCleanup(self.wake, directory or self.run_directory)

    def wake(self, directory: Path) -> None:
        """End a wait for a command that never came."""
        handle = os.open(directory, os.O_RDONLY)
        with socket.socket(socket.AF_UNIX) as asking:
            try:
                asking.connect(f"/proc/self/fd/{handle}/{CONTROL_SOCKET}")
                asking.sendall(b"{}")
            except OSError:
                pass
        os.close(handle)

    def command(
        self, *words: str, stdin: bool = True, stdout: bool = True, **environ: str
    ) -> tuple[int, bytes, str]:
        """Its status, its output and its stderr, after the input ``hello``."""
        near, far = os.pipe()
        out, its_out = os.pipe()
        told, its_told = os.pipe()
        nothing = os.open(os.devnull, os.O_RDWR)
        os.write(far, b"hello")
        with (
            open(near if stdin else nothing, "rb", closefd=False) as given,
            open(its_out if stdout else nothing, "wb", closefd=False) as output,
            open(its_told, "wb", closefd=False) as errors,
        ):
            process = begun(
                svc_command("proxy-ssh", *(words or ("db1",))),
                environment(self.home, environ),
                self.home,
                (given, output, errors),
            )
        for each in (near, its_out, its_told, nothing):
            os.close(each)
        try:
            with open(told, "rb") as errors, open(out, "rb") as output:
                return process.wait(20), output.read(), errors.read().decode()
        finally:
            process.kill()
            process.wait()
            os.close(far)

    @proves("X-37")
    def test_carried(self) -> None:
        """Its two pipes go with the question; nothing passes before ``go``; its words are told."""
        self.serve(
            b"taken\nop", b"en svc: notice\n", b"go\n", b"say svc: why\n", b"out\nexit 0\nsay no\n"
        )
        done = self.command("--kind", "tcp", "--user", "ada", "db1")
        self.assertEqual(done, (0, b"hello", "svc: notice\nsvc: why\n"))
        self.assertEqual(
            self.asked,
            [
                {
                    "ask": "carry",
                    "version": __version__,
                    "config": file_mark(str(self.config)),
                    "resource": "db1",
                    "kind": "tcp",
                    "parameters": {"login_user": "ada"},
                }
            ],
        )

    def test_refused(self) -> None:
        """A refusal is the resident's text and status 1; nothing was read or written."""
        self.serve(b"taken\nsay svc: db1: denied\nexit 1\n")
        self.assertEqual(self.command(), (1, b"", "svc: db1: denied\n"))

    def test_lost(self) -> None:
        """A resident that is lost mid-session ends the session with 1."""
        self.serve(b"taken\nopen svc: notice\n", b"go\n", b"end")
        status, output, said = self.command()
        self.assertEqual((status, output), (1, b"hello"))
        self.assertIn("db1: session ended: svc up, which carried it, has stopped", said)

    def test_by_itself(self) -> None:
        """Told to, or left alone before ``go``, the command goes on as without a resident."""
        for answers in (
            (b"itself\n",),
            (b"taken\n", b"end"),
            (b"taken\nitself\n",),
            (b"x" * 70_000,),
            (b"exit",),
            (b"{}\n",),
        ):
            self.serve(*answers)
            status, output, said = self.command()
            self.assertEqual((status, output, BY_ITSELF in said), (1, b"", True), (answers, said))
            self.assertEqual(len(self.asked), 1)
            self.doCleanups()
            self.asked.clear()
            (self.run_directory / CONTROL_SOCKET).unlink()

    def test_not_asked(self) -> None:
        """A resident is asked for none but a plain start between two pipes."""
        for words, special in (
            ((), {"stdin": False}),
            ((), {"stdout": False}),
            ((), {"SVC_CLIENT__DIRECT_LANE_AFTER": "64"}),
            (("--kind", "tcp", "--", "db1"), {}),
        ):
            self.serve(b"exit 0\n")
            options: Any = special
            status, output, said = self.command(*words, **options)
            self.assertEqual((status, output, BY_ITSELF in said), (1, b"", True), special)
            self.assertEqual(self.asked, [])
            self.doCleanups()
            self.asked.clear()
            (self.run_directory / CONTROL_SOCKET).unlink()

    def test_an_open_directory(self) -> None:
        """A directory that others can enter is not trusted with the pipes."""
        self.run_directory.chmod(0o755)
        self.serve(b"exit 0\n")
        self.assertIn(BY_ITSELF, self.command()[2])
        self.assertEqual(self.asked, [])

    def test_another_state_directory(self) -> None:
        """The resident is looked for where the configuration says its state is."""
        elsewhere = self.home / "elsewhere"
        (elsewhere / "run").mkdir(mode=0o700, parents=True)
        self.config.write_text(f'state_dir = "{elsewhere}"\n')
        self.serve(b"exit 0\n", directory=elsewhere / "run")
        self.assertEqual(self.command(), (0, b"", ""))

    def test_a_named_configuration(self) -> None:
        """So it is by ``--config``, and by ``SVC_CONFIG``."""
        other = self.home / "other"
        (other / "run").mkdir(mode=0o700, parents=True)
        config = other / "c.toml"
        config.write_text("")
        for words, environ in (
            (("db1", "--config", str(config)), {}),
            (("db1",), {"SVC_CONFIG": str(config)}),
        ):
            self.serve(b"exit 0\n", directory=other / "run")
            options: Any = environ
            self.assertEqual(self.command(*words, **options)[0], 0)
            self.assertEqual(self.asked[-1]["config"], file_mark(str(config)))
            self.doCleanups()
            (other / "run" / CONTROL_SOCKET).unlink()
