"""What ``svc status`` learns of a Proxy while no ``svc up`` runs."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from contrib.reference.json_names import unknown
from svc.cli.person_texts import able, facts
from svc.client.ask_proxy import ANSWER_TIMEOUT_SECS, NOT_ASKED, ask_proxies
from svc.client.link import ConfiguredProxy
from svc.client.own_certificate import identity_status
from svc.errors import Denied, SvcError, Unavailable
from svc.messages.session import Listing, encode_listing
from svc.messages.snapshot import REVOKED
from svc.model.cluster.person import DISABLED_PERSON, DISABLED_TEXT
from svc.model.principal import Role
from svc.rpc.client.channel import CANNOT_CONNECT
from tests.client.test_link import MemoryChannel, one
from tests.pki.support import World


class AskProxyTests(SynchronousTestCase):
    """Two Proxies that a test speaks for."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.dialed: list[tuple[str, MemoryChannel]] = []
        self.problems: dict[str, SvcError] = {}
        self.identity = World().identity(Role.USER)

    async def dial(self, address: str) -> Any:
        self.dialed.append((address, MemoryChannel()))
        if address in self.problems:
            raise self.problems[address]
        return self.dialed[-1][1]

    def asking(self) -> Deferred[dict[str, Any]]:
        ways = [
            ConfiguredProxy("a:1", lambda: self.dial("a:1")),
            ConfiguredProxy("b:2", lambda: self.dial("b:2")),
        ]
        return Deferred.fromCoroutine(ask_proxies(ways, self.clock, "client.toml"))

    def shown(self, told: dict[str, Any]) -> dict[str, object]:
        """The rows that a person reads; every name in the document is in the list."""
        status = {"running": False, **told, **identity_status(self.identity, 0.0, "ada")}
        self.assertEqual(list(unknown(status)), [])
        return dict(facts(status))

    def test_accepted(self) -> None:
        """The name, the Proxy that answered, and how many resources there are."""
        asking = self.asking()
        ((_, channel),) = self.dialed
        channel.made[-1].list("db1", "db2")
        told = self.successResultOf(asking)
        rows = self.shown(told)
        self.assertEqual((rows["person"], rows["proxy"]), ("ada", "a:1 accepts you"))
        self.assertEqual((rows["resources"], able(told)), (2, True))
        self.assertNotIn(self.identity.principal.id, str(rows))
        self.assertTrue(channel.is_closed)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_opens_nothing(self) -> None:
        """A Proxy that accepts the person and can open no session says why."""
        asking = self.asking()
        listing = Listing(True, (one("db1"),), lacking=("control_pool",))
        self.dialed[0][1].made[-1].say(encode_listing(listing))
        told = self.successResultOf(asking)
        self.assertEqual(self.shown(told)["no new sessions"], "the Proxy cannot reach Authority")
        self.assertFalse(able(told))

    def test_refused(self) -> None:
        """A disabled person is told so, in our words; no other Proxy is asked."""
        asking = self.asking()
        self.dialed[0][1].made[-1].say(Denied("other words", reason=DISABLED_PERSON))
        told = self.successResultOf(asking)
        rows = self.shown(told)
        self.assertEqual(rows["proxy"], "a:1 refuses you")
        self.assertEqual(rows["no new sessions"], DISABLED_TEXT)
        self.assertEqual((able(told), len(self.dialed)), (False, 1))

    def test_silent(self) -> None:
        """One that is silent is left after a few seconds; the next one is asked."""
        asking = self.asking()
        self.clock.advance(ANSWER_TIMEOUT_SECS)
        self.assertEqual([address for address, _ in self.dialed], ["a:1", "b:2"])
        self.dialed[1][1].made[-1].say(Denied("", reason=REVOKED))
        rows = self.shown(self.successResultOf(asking))
        self.assertEqual(rows["proxy"], "b:2 refuses you")

    def test_not_reached(self) -> None:
        """Where none answers, the last problem is told."""
        refused = Unavailable("cannot connect: connection refused", reason=CANNOT_CONNECT)
        self.problems = {"a:1": Unavailable("gone"), "b:2": refused}
        told = self.successResultOf(self.asking())
        self.assertEqual(
            self.shown(told)["proxy"],
            "not reached: b:2: cannot connect: connection refused; check that the Proxy runs, and "
            "its address in client.toml",
        )
        self.assertFalse(able(told))

    def test_not_asked(self) -> None:
        """With a certificate that is not good nobody is asked, and that is said."""
        self.assertIn("not asked", str(self.shown(NOT_ASKED)["proxy"]))
