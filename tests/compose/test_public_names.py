"""What a Proxy is configured to be called, against what its certificate says."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svc.compose.node import say_names_not_carried
from svc.config import read_settings
from svc.model.principal import Role
from svc.pki.host_names import host_names
from svc.pki.root import new_key
from tests.config.malformed import GOOD
from tests.pki.support import World
from tests.support.logged import logged

NAMES = ("gate.example.org", "192.0.2.7", "2001:db8::7")


class PublicNamesTests(SynchronousTestCase):
    """``endpoints.public_names`` gives nobody a certificate; a difference is said."""

    def said(self, *configured: str) -> list[list[str]]:
        """The names that the log calls missing."""
        leaf = World().issued(Role.PROXY, new_key(), names=NAMES).chain[0]
        names = ", ".join(f'"{name}"' for name in configured)
        settings = read_settings(f"{GOOD['proxy']}endpoints.public_names = [{names}]", "proxy")
        events = logged(self)
        say_names_not_carried(settings, leaf)
        return [one["names"] for one in events if one.get("reason") == "names_not_carried"]

    def test_names_of_a_certificate(self) -> None:
        """A leaf tells its DNS names and addresses, and not the URI of its holder."""
        leaf = World().issued(Role.PROXY, new_key(), names=NAMES).chain[0]
        self.assertEqual(host_names(leaf), set(NAMES))

    def test_carried(self) -> None:
        """Names that the certificate carries are not spoken of, however they are written."""
        self.assertEqual(self.said(*NAMES), [])
        self.assertEqual(self.said("Gate.Example.org"), [])
        self.assertEqual(self.said(), [])

    def test_not_carried(self) -> None:
        """Names that it does not carry are named, once."""
        self.assertEqual(
            self.said("gate.example.org", "other.example.org", "192.0.2.8"),
            [["other.example.org", "192.0.2.8"]],
        )
