"""Whose process is at the other end: asked of the real kernel, over real loopback sockets."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from svc.client.resident.peer_uid import AVAILABLE, listener_uid, peer_uid

OTHER = 54321
_CONNECT = """
import os, socket, sys
os.setgroups([]); os.setgid({uid}); os.setuid({uid})
s = socket.socket()
s.connect(("127.0.0.1", {port}))
sys.stdin.read()
"""
_LISTEN = """
import os, socket, sys
os.setgroups([]); os.setgid({uid}); os.setuid({uid})
s = socket.socket()
s.bind(("127.0.0.1", 0))
s.listen()
print(s.getsockname()[1], flush=True)
sys.stdin.read()
"""


def as_other(case: SynchronousTestCase, script: str, port: int = 0) -> subprocess.Popen[str]:
    """A process of another user that lives until the test ends."""
    if os.geteuid() != 0:
        raise SkipTest("only root can be another user as well")
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", script.format(uid=OTHER, port=port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def end() -> None:
        process.communicate("")

    case.addCleanup(end)
    return process


class PeerTests(SynchronousTestCase):
    def setUp(self) -> None:
        if not AVAILABLE:
            raise SkipTest("the kernel is not Linux")
        self.listening = socket.socket()
        self.listening.settimeout(30)
        self.listening.bind(("127.0.0.1", 0))
        self.listening.listen()
        self.port = self.listening.getsockname()[1]
        self.addCleanup(self.listening.close)

    def accepted(self) -> socket.socket:
        here, _ = self.listening.accept()
        self.addCleanup(here.close)
        return here

    def uid(self, here: socket.socket) -> int | None:
        return peer_uid(here.getsockname(), here.getpeername())

    def test_ours(self) -> None:
        """A connection of our own process is ours."""
        there = socket.create_connection(("127.0.0.1", self.port))
        self.addCleanup(there.close)
        self.assertEqual(self.uid(self.accepted()), os.geteuid())

    def test_half_closed(self) -> None:
        """Also when the peer has already ended its writing, as `nc -N` does."""
        there = socket.create_connection(("127.0.0.1", self.port))
        self.addCleanup(there.close)
        there.shutdown(socket.SHUT_WR)
        self.assertEqual(self.uid(self.accepted()), os.geteuid())

    def test_another_user(self) -> None:
        """A connection of another user is known as that user's."""
        as_other(self, _CONNECT, self.port)
        self.assertEqual(self.uid(self.accepted()), OTHER)

    def test_gone(self) -> None:
        """A peer that is gone belongs to nobody, and is not taken for root's."""
        there = socket.create_connection(("127.0.0.1", self.port))
        here = self.accepted()
        addresses = here.getsockname(), here.getpeername()
        there.close()
        self.assertIsNone(peer_uid(*addresses))

    def test_nobody(self) -> None:
        """Ports that no socket has belong to nobody."""
        self.assertIsNone(peer_uid(("127.0.0.1", self.port), ("127.0.0.1", 1)))

    def test_listener(self) -> None:
        """Who holds a port is told, for every address too."""
        self.assertEqual(listener_uid("127.0.0.1", self.port), os.geteuid())
        self.assertIsNone(listener_uid("127.99.0.1", self.port))
        wide = socket.socket()
        self.addCleanup(wide.close)
        wide.bind(("0.0.0.0", 0))
        wide.listen()
        self.assertEqual(listener_uid("127.99.0.1", wide.getsockname()[1]), os.geteuid())

    def test_listener_of_another_user(self) -> None:
        """A port that another user holds is known as that user's."""
        process = as_other(self, _LISTEN)
        assert process.stdout is not None
        self.assertEqual(listener_uid("127.0.0.1", int(process.stdout.readline())), OTHER)

    def test_many_at_once(self) -> None:
        """Questions of several threads do not get each other's answers."""
        ours = []
        for _ in range(8):
            there = socket.create_connection(("127.0.0.1", self.port))
            self.addCleanup(there.close)
            ours.append(self.accepted())
        found: list[int | None] = []
        threads = [
            threading.Thread(target=lambda one=one: found.append(self.uid(one))) for one in ours
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, [os.geteuid()] * 8)
