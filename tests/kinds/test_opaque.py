"""The kinds tcp and ssh: words, addresses, endpoints."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import ConfigError
from svc.interfaces.kinds import ServedKind
from svc.kinds.address import split_address
from svc.testing.contracts.kind import KindContract
from tests.kinds.served import ssh, tcp

PATH = "connector.resources[2]"


class TcpTests(KindContract, SynchronousTestCase):
    word = "tcp"


class SshTests(KindContract, SynchronousTestCase):
    word = "ssh"
    good_parameters = {"login_user": "ada"}


class AddressTests(SynchronousTestCase):
    def _address(self, address: object, kind: ServedKind = tcp) -> str:
        parsed: str = kind.dialer.parse("db1", {"address": address}, PATH).address
        return parsed

    def test_default_port(self) -> None:
        """An SSH host needs no port; a TCP service does."""
        self.assertEqual(self._address("db1.internal", ssh), "db1.internal:22")
        refusal = self.assertRaises(ConfigError, self._address, "db1.internal")
        self.assertEqual(refusal.where, f"{PATH}.address")
        self.assertIn("host:port", refusal.what)

    def test_one_form(self) -> None:
        """However an address is written, it is kept in one form."""
        self.assertEqual(self._address("DB1.Internal:05432"), "db1.internal:5432")
        self.assertEqual(self._address("[0:0::1]:80"), "[::1]:80")
        self.assertEqual(self._address("[2001:DB8::1]", ssh), "[2001:db8::1]:22")

    def test_refusals(self) -> None:
        """Whatever is not host:port is refused by the key's path, the value unsaid."""
        bad: list[object] = [
            "",
            None,
            7,
            [],
            "a b:1",
            "db1:",
            "db1:0",
            "db1:65536",
            "db1:+1",
            "db1:1e3",
            "db1:²",
            ":22",
            "::1:22",
            "[::1",
            "[::1]22",
            "[::1]:",
            "[zz]:1",
            "http://x:1",
            "u:p@h:1",
            "x" * 300 + ":1",
            "db1\n:1",
            "-x:1",
            "..:1",
        ]
        for address in bad:
            for kind in (tcp, ssh):
                refusal = self.assertRaises(ConfigError, self._address, address, kind)
                self.assertEqual(refusal.where, f"{PATH}.address", address)

    @given(st.text(max_size=40))
    @settings(deadline=None)
    def test_any_text(self, text: str) -> None:
        """Any text is either refused in words or gives a host and a port."""
        try:
            host, port = split_address(self._address(text, ssh))
        except ConfigError:
            return
        self.assertTrue(host and 0 < port <= 65535)


class WordsTests(SynchronousTestCase):
    def test_words_of_policies_and_metrics(self) -> None:
        """Both kinds are decided once, as connect, under their own names, unread by the Proxy."""
        said = [
            (k.name, k.protocol, k.request_kind, k.opaque, k.terms.open_action) for k in (tcp, ssh)
        ]
        self.assertEqual(
            said,
            [
                ("tcp", "tcp", "connect", True, "tcpConnect"),
                ("ssh", "ssh", "connect", True, "sshConnect"),
            ],
        )

    def test_native_port(self) -> None:
        """The port people's tools expect comes from the label, else from the kind."""
        self.assertEqual(ssh.local.native_port({}), 22)
        self.assertEqual(ssh.local.native_port({"port": "2222"}), 2222)
        self.assertEqual(tcp.local.native_port({"port": "8080"}), 8080)
        self.assertIsNone(tcp.local.native_port({"port": "http"}))
