"""The keys of listeners, of what is dialed, and of the public listener's TLS."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svc.config import Address, read_settings
from tests.config.malformed import GOOD
from tests.config.test_refusals import lines, refused
from tests.support.proof import proves

NEITHER_NOR = '[proxy.tls]\ncert = "/c"\nkey = "/k"\n'
PLAIN = "proxy.public_plaintext = true\n"


class ListenerTests(SynchronousTestCase):
    """``endpoints`` and ``proxy``."""

    @proves("G-OPEN-52")
    def test_endpoints(self) -> None:
        """Each role has its listeners and the addresses that it dials, by these names."""
        proxy = read_settings(GOOD["proxy"], "proxy").endpoints
        self.assertEqual(proxy.public_listen, Address("127.0.0.1", 0))
        without = GOOD["proxy"].replace("endpoints.public_listen", "profile")
        self.assertEqual(
            lines(refused("proxy", without)), ["endpoints.public_listen: required for proxy"]
        )
        text = f'{GOOD["authority"]}endpoints.control_listen = "10.0.0.1:9"\n'
        authority = read_settings(text, "authority").endpoints
        self.assertEqual(authority.control_listen, Address("10.0.0.1", 9))
        several = GOOD["connector"].replace('["127.0.0.1:1"]', '["a:1", "b:2"]')
        connector = read_settings(several, "connector").endpoints
        self.assertEqual(connector.proxy, (Address("a", 1), Address("b", 2)))
        single = GOOD["connector"].replace('["127.0.0.1:1"]', '"a:1"')
        self.assertIn("endpoints.proxy: must be ", str(refused("connector", single)))
        none = GOOD["connector"].replace('["127.0.0.1:1"]', "[]")
        self.assertEqual(
            lines(refused("connector", none)), ["endpoints.proxy: required for connector"]
        )

    @proves("G-OPEN-52")
    def test_public_tls(self) -> None:
        """TLS by the node's own certificate, or plaintext by a word of its own; never both."""
        good = GOOD["proxy"]
        self.assertFalse(read_settings(good, "proxy").proxy.public_plaintext)
        self.assertTrue(read_settings(good + PLAIN, "proxy").proxy.public_plaintext)
        both = lines(refused("proxy", good + PLAIN + NEITHER_NOR))
        self.assertIn("proxy.public_plaintext: excludes [proxy.tls]", both)
        for key, other in (("cert", "key"), ("key", "cert")):
            half = lines(refused("proxy", f'{good}proxy.tls.{key} = "/f"\n'))
            self.assertIn(
                f"proxy.tls.{other}: required with proxy.tls.{key}; give both or neither", half
            )
        own = lines(refused("proxy", good + NEITHER_NOR))
        self.assertEqual(
            own,
            [
                "proxy.tls.cert: not in this build; remove it",
                "proxy.tls.key: not in this build; remove it",
            ],
        )
