"""A disk that is full under a running gateway: everybody is told so, and it heals by itself."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.processes import until
from svc.testing.gateway.settings import AUTHORITY, PROXY
from tests.fault.strace import inject
from tests.support.proof import proves
from tests.system.world import around

RUN_BY = "make fault"

_CALLS = "pwrite64,fsync,fdatasync"
"""What puts a record on a disk; a role's own log is written by another call, and goes on."""


@cache
def gateway() -> Gateway:
    """The gateway of these tests, each of which ends with it as it was."""
    made = make_gateway([one for one in around().resources if one.id == "echo"])
    made.add_person("ada", "ops").up("echo")
    return made


class FullDiskTests(SynchronousTestCase):
    """Four processes, and a person who comes and goes."""

    def setUp(self) -> None:
        self.gateway = gateway()
        [self.person] = self.gateway.people
        until("a session opens", self.is_open)

    def is_open(self) -> bool:
        """Whether a session comes about, and carries something."""
        try:
            with socket.create_connection(self.person.endpoint("echo"), 30) as peer:
                peer.sendall(b"hello")
                return peer.recv(5) == b"hello"
        except OSError:
            return False

    @contextmanager
    def limited(self, role: str) -> Iterator[None]:
        """Let a role write to no file at all."""
        pid = self.gateway.child(role).pid
        before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, before[1]))
        try:
            yield
        finally:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, before)

    @contextmanager
    def full(self, role: str) -> Iterator[None]:
        """Let the disk answer a role that there is no room."""
        strace = inject(self.gateway.child(role).pid, _CALLS, "error=ENOSPC", "1+")
        try:
            yield
        finally:
            strace.end()

    def said(self, role: str, status: int, *words: str) -> None:
        """Wait until ``/readyz`` of a role says so."""

        def look() -> bool:
            found, body = self.gateway.get(role, "/readyz")
            return found == status and all(word in body for word in words)

        until(f"/readyz says {words}", look, 30, [self.gateway.child(role)])

    def check(
        self, role: str, fault: AbstractContextManager[None], status: int, *words: str
    ) -> str:
        """Fill the disk of a role; what it logged meanwhile is returned."""
        child = self.gateway.child(role)
        before = len(child.text())
        with fault:
            # Nobody asks for anything: a look of its own finds it.
            self.said(role, status, *words)
            for _ in range(3):
                self.assertFalse(self.is_open())
            refused = self.person.refused("echo")
            self.assertIn(f"the disk of the {role.capitalize()} is full", refused["text"])
            self.assertNotIn("/", refused["text"])
            if role == AUTHORITY:
                status_text = self.gateway.operator("status").stdout
                self.assertRegex(status_text, r"not ready .*store_full")
                shown = self.gateway.operator("groups", "add", "more", check=False)
                self.assertIn("the disk of the Authority is full", shown.stderr)
        self.gateway.await_ready(role)
        until("a session opens", self.is_open, 30, [child])
        until("nothing is lacking", lambda: self.gateway.get(role, "/readyz")[1] == "ready\n", 30)
        text = child.text()[before:]
        for bad in ("Traceback", "internal"):
            self.assertNotIn(bad, text)
        return text

    @proves("G-RDY-05", "G-RDY-06")
    def test_an_authority_that_may_not_write(self) -> None:
        """A file size limit makes it not ready by name; who asks is told of the disk."""
        self.check(AUTHORITY, self.limited(AUTHORITY), 503, "store_full")

    def test_the_disk_of_an_authority(self) -> None:
        """A full disk does the same, and the operator's log names the store's file."""
        text = self.check(AUTHORITY, self.full(AUTHORITY), 503, "store_full")
        self.assertIn(str(self.gateway.files.store), text)

    def test_a_proxy_that_may_not_write(self) -> None:
        """A file size limit is said in the body; the Proxy stays ready, and keeps Authority."""
        self.check(PROXY, self.limited(PROXY), 200, "lacking", "the disk of the Proxy is full")

    def test_the_disk_of_a_proxy(self) -> None:
        """A full disk does the same, and the operator's log names what it wrote to."""
        text = self.check(PROXY, self.full(PROXY), 200, "lacking", "the disk of the Proxy is full")
        self.assertRegex(text, r'"(file|directory)":"/[^"]*/proxy/')
