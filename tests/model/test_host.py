"""Hosts of configurations: names, addresses, and what only looks like one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.model.host import is_public, read_host


class HostTests(SynchronousTestCase):
    def test_taken(self) -> None:
        """Names in lower case, addresses in their one form."""
        for text, host in (
            ("DB1.Internal", "db1.internal"),
            ("_srv.a-b.example.", "_srv.a-b.example."),
            ("10.0.0.5", "10.0.0.5"),
            ("0:0::1", "::1"),
            ("1.example", "1.example"),
            ("FE80::1%eth0", "fe80::1%eth0"),
            ("a" * 63, "a" * 63),
        ):
            self.assertEqual(read_host(text), host)

    def test_refused(self) -> None:
        """What resolvers would read as another address, and what is no name at all."""
        for text in (
            "127.1",
            "1.2.3",
            "999.1.1.1",
            "2130706433",
            "0x7f000001",
            "a.0x7f",
            "1.2.3.4.",
            "010.0.0.1",
            "",
            ".",
            "a..b",
            "-a",
            "a-",
            "a-.b",
            "a b",
            "a" * 64,
            "a." * 127 + "aa",
            "fe80::1%",
            "\u212a.example",
            "\u017fsh.example",
            "\u0661.example",
            "h\n",
            "[::1]",
            "::1%eth0 ",
        ):
            error = self.assertRaises(ValueError, read_host, text)
            self.assertEqual(str(error), "the host must be a DNS name or an IP address")

    @given(st.text(max_size=80))
    def test_any_text(self, text: str) -> None:
        """Whatever is taken is ASCII, and reads as itself again."""
        try:
            host = read_host(text)
        except ValueError:
            return
        self.assertTrue(host.isascii())
        self.assertEqual(read_host(host), host)


class ReachTests(SynchronousTestCase):
    def test_public(self) -> None:
        """All addresses at once, global ones, and what is no address are public."""
        for host in ("0.0.0.0", "::", "8.8.8.8", "2606:4700::1", "::ffff:8.8.8.8", "name", ""):
            self.assertTrue(is_public(host), host)

    def test_private(self) -> None:
        """Loopback, private, shared, link-local and unique local addresses are not."""
        for host in (
            "127.0.0.1",
            "127.9.9.9",
            "::1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.0.1",
            "100.64.0.1",
            "169.254.1.1",
            "fe80::1%eth0",
            "fd00::1",
            "::ffff:10.0.0.1",
        ):
            self.assertFalse(is_public(host), host)
