"""``svc init``: the commands it prints, pasted one by one, end in a session."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import socket
import sys
import tempfile
from functools import partial
from http.client import HTTPConnection
from io import StringIO
from pathlib import Path
from shutil import rmtree
from threading import Thread

import pyotp
from twisted.trial.unittest import SynchronousTestCase

from svc.cli import main
from svc.testing.gateway.files import free_ports
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import Child, Ran, TooLate, run, svc_command, until
from tests.system.starts import svc_words
from tests.system.typed import PASSWORD, TypedLogin

RUN_BY = "make fault"

_STAYS = re.compile(r" (authority|proxy|connector|all|up)$")
_HELLO = b"hello through the gateway\n"


class InitTests(SynchronousTestCase):
    """From nothing to a session by what is printed alone."""

    def setUp(self) -> None:
        self.base = Path(tempfile.mkdtemp(prefix="svc-test-init-"))
        self.addCleanup(rmtree, self.base, True)
        self.home = self.base / "home"
        self.home.mkdir()
        self.gate = self.base / "my gate"
        self.children: list[Child] = []
        self.has_shell = True

    def typed(self, line: str) -> list[str]:
        """A line as a shell is given it, or without one as what the fork server starts for it."""
        if self.has_shell or line.startswith("("):
            return ["sh", "-c", line]
        python, safe_path, dash_m, module, *words = shlex.split(
            line.replace("$HOME", str(self.home))
        )
        self.assertEqual([python, safe_path, dash_m, module], svc_words())
        return svc_command(*words)

    def paste(self, line: str) -> None:
        """Type one line: into a terminal of its own where it stays, else to its end.

        A person who is told that something is not there yet tries again; so do we.
        """
        stays = _STAYS.search(line)
        if stays is None:
            tried: list[Ran] = []

            def went_well() -> bool:
                tried.append(run(self.typed(line), self.home))
                return tried[-1].status == 0

            try:
                until(line, went_well, 30, self.children)
            except TooLate as late:
                raise AssertionError(f"{late}\n{tried[-1]}") from None
            return
        log = self.base / f"{stays[1]}.log"
        words = self.typed(f"exec {line}" if self.has_shell else line)
        child = Child(name=stays[1], words=words, home=self.home, log=log)
        self.addCleanup(child.end)
        child.start()
        self.children.append(child)
        if stays[1] in ("authority", "all"):
            # Whatever is typed next asks it; a try costs more than to look for its socket.
            until("its socket", lambda: self.has("control.sock"), 30, [child])

    def init(self, *more: str) -> list[str]:
        """The commands that ``svc init`` prints."""
        public, authority, *_ = free_ports()
        ports = ("--public-port", str(public), "--authority-port", str(authority))
        served = ("--resource", f"echo=tcp:127.0.0.1:{_echo(self)}")
        words = svc_command("init", str(self.gate), *ports, *served, *more)
        lines = run(words, self.home).checked().stdout.splitlines()
        # Its hour begins when the gateway does.
        self.assertFalse(self.has("first-administrator.code"))
        return [line for line in lines if line and not line.startswith("#")]

    def has(self, name: str) -> bool:
        """Whether the gateway has a file of this name, or a socket."""
        return any(name in names for _, _, names in os.walk(self.gate))

    def address(self, listing: str) -> tuple[str, int] | None:
        """Where the echo stands, once it is served."""
        for one in json.loads(run(self.typed(listing), self.home).checked().stdout):
            if one["resource"] == "echo" and one["served"] and one["address"]:
                host, _, port = one["address"].rpartition(":")
                return host, int(port)
        return None

    def check(self, lines: list[str]) -> None:
        """Paste every line; a session then echoes, and every process ends well."""
        for line in lines:
            if line.endswith("resources list"):
                look = partial(self.address, f"{line} --json")
                there = until("echo to be served", look, 40, self.children)
                self.paste(line)
            elif line.endswith(" open svc-page"):
                self.read_page(f"{line.removesuffix('svc-page')} --print svc-page")
            elif " --first-administrator " in line:
                self.enroll(line)
            else:
                self.paste(line)
        with socket.create_connection(there, 10) as talking:
            talking.settimeout(10)
            talking.sendall(_HELLO)
            self.assertEqual(talking.recv(len(_HELLO)), _HELLO)
        for child in reversed(self.children):
            self.assertEqual(child.stop(), 0, child.tail())
        role = "all" if (self.gate / "all.toml").exists() else "authority"
        typed = ("--config", str(self.gate / f"{role}.toml"), "authority", "status")
        told = run(svc_command(*typed), self.home)
        self.assertIn(f"start it with: svc --config {shlex.quote(typed[1])} {role}\n", told.stderr)

    def read_page(self, line: str) -> None:
        """The browser page, whose URL a line prints, knows the person."""
        opened = until("the page", lambda: self._printed(line), 40, self.children)
        host = opened.removeprefix("http://").rstrip("/")
        connection = HTTPConnection("127.0.0.1", int(host.rpartition(":")[2]), timeout=20)
        self.addCleanup(connection.close)
        connection.request("GET", "/", headers={"Host": host})
        answer = connection.getresponse()
        said = answer.read().decode()
        self.assertEqual(answer.status, 200, said)
        self.assertIn("You are <strong>ada</strong>", said)
        self.assertIn("svc open svc-page", said)

    def enroll(self, line: str) -> None:
        """Answer what the command of the first administrator asks for."""
        words = shlex.split(line.replace("$HOME", str(self.home)))
        person = GatewayPerson("root", self.home, "gate.internal")
        login = TypedLogin(person, tuple(words[words.index("login") + 1 :]))
        login.type("root", PASSWORD)
        totp = pyotp.parse_uri(login.line("otpauth://"))
        assert isinstance(totp, pyotp.TOTP)
        login.type(totp.now())
        self.assertIn("as root, in administrators", login.ended())

    def _printed(self, line: str) -> str | None:
        ran = run(self.typed(line), self.home)
        return ran.stdout.strip() if ran.status == 0 else None

    def test_four_processes(self) -> None:
        """Authority, Proxy, Connector and a person join by tokens and carry a session.

        In the short form without a shell, and so from the fork server; the other test has one.
        """
        self.has_shell = os.environ.get("SVC_LONG") == "1"
        self.check(self.init())

    def test_one_process_whose_root_key_is_elsewhere(self) -> None:
        """svc all serves a person at once, without the root's private key."""
        self.check(self.init("--all", "--page", "--root-key-to", str(self.base / "root.key")))
        self.assertTrue((self.base / "root.key").exists())
        whole = svc_command("--config", str(self.gate / "all.toml"), "authority", "audit", "verify")
        run(whole, self.home).checked()

    def test_refusals_are_told_and_leave_nothing(self) -> None:
        """Usage errors end with 64, what is there already with 1; nothing is made."""
        for status, *words in (
            (64, "--cluster", "No Name"),
            (64, "--all", "--for", "proxy"),
            (64, "--resource", "echo"),
            (64, "--for", "connector"),
            (64, "--page", "--for", "authority"),
            (1, "--root-key-to", str(self.home)),
        ):
            out, err = StringIO(), StringIO()
            self.patch(sys, "stdout", out)
            self.patch(sys, "stderr", err)
            self.assertEqual(main(["init", str(self.gate), *map(str, words)]), status)
            self.assertEqual(out.getvalue(), "")
            self.assertIn(str(words[0]) if words[0] != "--for" else "--ca-pin", err.getvalue())
        self.assertEqual([each.name for each in self.base.iterdir()], ["home"])


def _echo(case: SynchronousTestCase) -> int:
    """The port of a service that says back what it hears, until the test ends."""
    listening = socket.create_server(("127.0.0.1", 0))
    case.addCleanup(listening.close)

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                one, _ = listening.accept()
                with one:
                    while piece := one.recv(4096):
                        one.sendall(piece)

    Thread(target=serve, daemon=True).start()
    return int(listening.getsockname()[1])
