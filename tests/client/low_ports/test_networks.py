"""Which network of loopback addresses a user has, before and after a restart."""

from __future__ import annotations

import json
from ipaddress import IPv4Network
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.client.low_ports.networks import MAX_UID, MOST, NAME, PREFIX, NoNetworkLeft, UserNetworks
from svc.errors import ConfigError
from svc.model.session.local_ports import LOOPBACK
from tests.support.examples import examples

UIDS = st.lists(st.integers(0, MAX_UID), unique=True, max_size=30)


class NetworkTests(SynchronousTestCase):
    """In a directory of their own."""

    def setUp(self) -> None:
        self.directory = Path(self.mktemp())
        self.directory.mkdir()

    def load(self) -> UserNetworks:
        return UserNetworks.load(self.directory)

    @settings(deadline=None, max_examples=examples(50))
    @given(UIDS)
    def test_one_each(self, uids: list[int]) -> None:
        """No network has two users, each has one for good, and all are of ours."""
        (self.directory / NAME).unlink(missing_ok=True)
        networks = self.load()
        self.assertEqual([networks.of(uid) for uid in uids], [None] * len(uids))
        given_out = [networks.give(uid) for uid in uids]
        self.assertEqual(len(set(given_out)), len(uids))
        self.assertTrue(all(one.subnet_of(LOOPBACK) for one in given_out))
        self.assertEqual([networks.give(uid) for uid in reversed(uids)], given_out[::-1])
        self.assertEqual([self.load().of(uid) for uid in uids], given_out)

    def test_all_taken(self) -> None:
        """When every network has a user, nobody else gets one, and they keep theirs."""
        document = {"version": 1, "networks": {str(uid): uid for uid in range(MOST)}}
        (self.directory / NAME).write_text(json.dumps(document))
        networks = self.load()
        last = IPv4Network((int(LOOPBACK.broadcast_address) + 1 - 1024, PREFIX))
        self.assertEqual(networks.give(MOST - 1), last)
        refusal = self.assertRaises(NoNetworkLeft, networks.give, MOST)
        self.assertIn(str(self.directory / NAME), refusal.text)

    def test_last_one_free(self) -> None:
        """The last free network is found, wherever it is."""
        for free in (0, 1717, MOST - 1):
            taken = [number for number in range(MOST) if number != free]
            document = {"version": 1, "networks": {str(uid): uid for uid in taken}}
            (self.directory / NAME).write_text(json.dumps(document))
            found = self.load().give(70_000)
            self.assertEqual(int(found.network_address), int(LOOPBACK[0]) + free * 1024)

    def test_damaged(self) -> None:
        """A damaged file is refused: without it users would get the addresses of others."""
        for text in (
            "",
            "[]",
            "{",
            '{"version": 2, "networks": {}}',
            '{"version": 1}',
            '{"version": 1, "networks": []}',
            '{"version": 1, "networks": {"1000": 5, "1001": 5}}',
            '{"version": 1, "networks": {"1000": 4096}}',
            '{"version": 1, "networks": {"1000": -1}}',
            '{"version": 1, "networks": {"1000": true}}',
            '{"version": 1, "networks": {"1000": 1.5}}',
            '{"version": 1, "networks": {"ada": 1}}',
            '{"version": 1, "networks": {"-1": 1}}',
            '{"version": 1, "networks": {"1000": 1, "01000": 2}}',
            "[" * 100_000,
        ):
            (self.directory / NAME).write_text(text)
            refusal = self.assertRaises(ConfigError, self.load)
            self.assertIn("move it away", refusal.text, text[:60])

    def test_not_written(self) -> None:
        """A network that the disk did not take was not given."""
        networks = self.load()
        self.directory.rename(self.directory.with_name("elsewhere"))
        self.assertRaises(OSError, networks.give, 1000)
        self.assertIsNone(networks.of(1000))
