"""Where resources stand on this machine."""

from __future__ import annotations

from ipaddress import IPv4Address
from itertools import islice

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.client.resident.addresses import NETWORK, addresses, is_ours, ports
from tests.support.proof import proves

NAMES = st.sets(st.text("abcdefghij0123456789-", min_size=1, max_size=12), max_size=40)
NATIVE = st.one_of(st.none(), st.integers(1, 65535))
OFFSET = st.integers(0, 60000)


class AddressTests(SynchronousTestCase):
    @proves("G-OPEN-63")
    @settings(deadline=None)
    @given(NAMES)
    def test_distinct_and_stable(self, names: set[str]) -> None:
        """Each resource has its own loopback address, the same after every start."""
        given_out = addresses("c1.example.test", 1000, names)
        self.assertEqual(set(given_out), names)
        self.assertEqual(len(set(given_out.values())), len(names))
        for address in given_out.values():
            self.assertIn(IPv4Address(address), NETWORK)
            self.assertTrue(is_ours(address))
        self.assertEqual(addresses("c1.example.test", 1000, sorted(names, reverse=True)), given_out)

    @settings(deadline=None)
    @given(NAMES, NAMES)
    def test_nothing_moves(self, first: set[str], later: set[str]) -> None:
        """What had an address keeps it, whatever comes beside it."""
        before = addresses("c1.example.test", 1000, first)
        after = addresses("c1.example.test", 1000, first | later, before)
        self.assertEqual({name: after[name] for name in first}, before)
        self.assertEqual(len(set(after.values())), len(first | later))

    def test_collision(self) -> None:
        """A resource whose address another one has gets the next of its own."""
        alone = addresses("c1.example.test", 1000, ["db1"])["db1"]
        both = addresses("c1.example.test", 1000, ["db1", "other"], {"other": alone})
        self.assertEqual(both["other"], alone)
        self.assertNotEqual(both["db1"], alone)

    def test_two_users(self) -> None:
        """Two users of one machine do not meet on one address."""
        self.assertNotEqual(addresses("c1", 1000, ["db1"]), addresses("c1", 1001, ["db1"]))

    def test_not_ours(self) -> None:
        """Addresses of elsewhere, and words, are not taken for ours."""
        for text in ("127.0.0.1", "10.0.0.1", "127.64.0.0", "127.64.0.255", "", "db1", "::1"):
            self.assertFalse(is_ours(text), text)


class PortTests(SynchronousTestCase):
    @proves("G-LIM-04", "X-66", "X-68")
    def test_offset(self) -> None:
        """The offset is added to every native port: 22 is 10022, 5432 is 15432."""
        self.assertEqual(next(ports("c1", "a", 22, 10000)), 10022)
        self.assertEqual(next(ports("c1", "a", 5432, 10000)), 15432)
        self.assertEqual(next(ports("c1", "a", 22, 0)), 22)

    @settings(deadline=None, max_examples=30)
    @given(NATIVE, OFFSET)
    def test_all_usable(self, native: int | None, offset: int) -> None:
        """Every port to try is a port, none comes twice, and sums too large are no dead end."""
        tried = list(islice(ports("c1", "a", native, offset), 70000))
        self.assertEqual(len(set(tried)), len(tried))
        self.assertTrue(all(0 < port <= 65535 for port in tried))
        self.assertGreater(len(tried), 60000)
        if native is not None and native + offset <= 65535:
            self.assertEqual(tried[0], native + offset)

    def test_no_native_port(self) -> None:
        """A kind without a native port has the same port at each start."""
        first = next(ports("c1", "a", None, 10000))
        self.assertEqual(first, next(ports("c1", "a", None, 10000)))
        self.assertTrue(20000 <= first < 30000)
