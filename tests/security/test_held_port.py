"""Another user of the laptop who takes a port before us, in the way that is easiest to miss."""

from __future__ import annotations

import socket

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from svc.client.resident.peer_uid import AVAILABLE, listener_uid
from tests.client.resident.test_peer_uid import OTHER, as_other

_LISTEN = """
import os, socket, sys
os.setgroups([]); os.setgid({uid}); os.setuid({uid})
s = socket.socket(socket.AF_INET6)
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
s.bind(("::", 0))
s.listen()
print(s.getsockname()[1], flush=True)
sys.stdin.read()
"""


class HeldPortTests(SynchronousTestCase):
    def setUp(self) -> None:
        if not (AVAILABLE and socket.has_ipv6):
            raise SkipTest("the kernel is not Linux with IPv6")

    def test_port_held_over_both_families(self) -> None:
        """A port held by another user's [::] socket is known as that user's."""
        process = as_other(self, _LISTEN)
        assert process.stdout is not None
        port = int(process.stdout.readline())
        with socket.socket() as ours, self.assertRaises(OSError):
            ours.bind(("127.64.0.1", port))
        self.assertEqual(listener_uid("127.64.0.1", port), OTHER)

    def test_other_address_of_ipv6(self) -> None:
        """A socket of [::1] holds no port of 127.64.0.1."""
        held = socket.socket(socket.AF_INET6)
        self.addCleanup(held.close)
        try:
            held.bind(("::1", 0))
        except OSError as error:
            raise SkipTest("there is no ::1 here") from error
        held.listen()
        self.assertIsNone(listener_uid("127.64.0.1", held.getsockname()[1]))
