"""Our identity on disk: never half a pair, whenever the machine stops."""

from __future__ import annotations

import os
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svc.errors import ConfigError
from svc.model.principal import Role
from svc.pki.files import key_pem
from svc.pki.identity import TransportIdentity
from svc.pki.identity_store import IdentityStore
from svc.pki.root import new_key
from tests.pki.support import World
from tests.support.proof import proves


class Stopped(BaseException):
    """The machine stopped here."""


class IdentityStoreTests(SynchronousTestCase):
    """One state directory."""

    def setUp(self) -> None:
        self.world = World()
        self.state = Path(self.mktemp())
        self.state.mkdir(mode=0o700)
        self.steps: list[str] = []
        self.stop_at = -1
        self.store = self.open()

    def open(self) -> IdentityStore:
        return IdentityStore(self.state, crash_point=self.crash_point)

    def crash_point(self, name: str) -> None:
        self.steps.append(name)
        if len(self.steps) - 1 == self.stop_at:
            raise Stopped(name)

    def write(self, generation: int = 1) -> tuple[bytes, ...]:
        key = self.store.pending_key()
        chain = self.world.issued(Role.PROXY, key, generation=generation, id="a" * 26).chain
        self.store.write(key, chain)
        return chain

    def joined(self) -> tuple[bytes, ...]:
        self.store.pin(self.world.keys.root_der)
        return self.write()

    def refusal(self, uid: int | None = None) -> ConfigError:
        error: ConfigError = self.assertRaises(ConfigError, IdentityStore(self.state, uid=uid).load)
        return error

    def test_none(self) -> None:
        """Before joining there is no identity, and loading says so."""
        self.assertFalse(self.store.exists)
        self.refusal()

    def test_round_trip(self) -> None:
        """What was written is read by the next process, with the pinned root."""
        chain = self.joined()
        stored = self.open().load()
        self.assertEqual((stored.chain, stored.root), (chain, self.world.keys.root_der))
        identity = TransportIdentity.load(self.store, self.world.now)
        self.assertEqual(identity.facts.principal.role, Role.PROXY)
        self.assertEqual(identity.chain, chain)

    def test_layout(self) -> None:
        """The files lie where operators are told, reachable by their owner only."""
        self.joined()
        current = self.state / "identity" / "current"
        self.assertTrue(current.is_symlink())
        self.assertEqual(
            {path.name for path in current.iterdir()}, {"leaf.pem", "chain.pem", "key.pem"}
        )
        for path in (self.state / "identity").rglob("*"):
            if not path.is_symlink():
                self.assertEqual(path.stat().st_mode & 0o077, 0, path)

    def test_every_crash(self) -> None:
        """Stopping at any step of a replacement leaves the old pair or the new one, whole."""
        self.joined()
        self.steps.clear()
        self.write(2)
        self.write(3)
        whole = len(self.steps)
        self.assertGreater(whole, 16)
        seen = set()
        for step in range(whole // 2):
            old = self.store.load().chain
            self.steps, self.stop_at = [], step
            key = self.store.pending_key()
            chain = self.world.issued(Role.PROXY, key, generation=step + 4, id="a" * 26).chain
            self.assertRaises(Stopped, self.store.write, key, chain)
            self.stop_at = -1
            found = self.open().load().chain
            self.assertIn(found, (old, chain), self.steps)
            seen.add(found == chain)
            self.store.write(key, chain)
            self.assertEqual(self.open().load().chain, chain)
        self.assertEqual(seen, {True, False})

    def test_first_crash(self) -> None:
        """Stopping in the first replacement leaves no identity or a whole one."""
        for step in range(9):
            self.setUp()
            self.store.pin(self.world.keys.root_der)
            self.stop_at = step
            key = self.store.pending_key()
            chain = self.world.issued(Role.PROXY, key).chain
            try:
                self.store.write(key, chain)
            except Stopped:
                pass
            if self.open().exists:
                self.assertEqual(self.open().load().chain, chain)
            else:
                self.assertEqual(key_pem(self.open().pending_key()), key_pem(key))

    def test_pruned(self) -> None:
        """The current pair and the one before are kept, older ones are not."""
        chains = [self.joined(), *(self.write(number) for number in range(2, 6))]
        kept = [p for p in (self.state / "identity").iterdir() if p.is_dir() and not p.is_symlink()]
        self.assertEqual(len(kept), 2)
        self.assertEqual(self.store.load().chain, chains[-1])

    def test_pending_key(self) -> None:
        """The key to ask with stays the same until a pair was written, through restarts."""
        first = key_pem(self.store.pending_key())
        self.assertEqual(key_pem(self.open().pending_key()), first)
        self.joined()
        self.assertNotEqual(key_pem(self.store.pending_key()), first)

    def test_audit_key(self) -> None:
        """The audit key is made once and outlives renewals."""
        first = self.store.audit_key().public_key()
        self.joined()
        self.assertEqual(self.open().audit_key().public_key(), first)

    def test_other_key_refused(self) -> None:
        """A pair that does not match is not written at all."""
        old = self.joined()
        chain = self.world.issued(Role.PROXY, new_key(), generation=2).chain
        self.assertRaises(ConfigError, self.store.write, new_key(), chain)
        self.assertEqual(self.store.load().chain, old)

    @proves("U-BAK-07")
    def test_half_pair(self) -> None:
        """A key that does not fit, or a file that is gone, is named; no token is tried instead."""
        self.joined()
        place = (self.state / "identity" / "current").resolve()
        for name in ("leaf.pem", "chain.pem", "key.pem"):
            kept = (place / name).read_bytes()
            (place / name).unlink()
            self.assertTrue(self.refusal().where.endswith(name))
            self.assertTrue(self.store.exists)
            (place / name).write_bytes(kept)
            (place / name).chmod(0o600)
        (place / "key.pem").write_bytes(key_pem(new_key()))
        self.assertIn("does not match", self.refusal().what)

    def test_no_root(self) -> None:
        """A root that is gone, empty, garbage, or two, stops the start, naming its file."""
        self.joined()
        path = self.state / "trust" / "root.pem"
        whole = path.read_bytes()
        for wrong in (None, b"", b"garbage", whole[:-30], whole + whole):
            if wrong is None:
                path.unlink()
            else:
                path.write_bytes(wrong)
                path.chmod(0o600)
            self.assertEqual(Path(self.refusal().where).name, "root.pem")
            load = TransportIdentity.load
            self.assertRaises(ConfigError, load, self.store, self.world.now)

    def test_owner_and_mode(self) -> None:
        """Files of another user, or open to others, are refused."""
        self.joined()
        self.assertIn("uid", self.refusal(uid=os.geteuid() + 1).what)
        place = (self.state / "identity" / "current").resolve()
        for path in (place / "key.pem", place, self.state / "trust", self.state / "identity"):
            mode = path.stat().st_mode & 0o777
            path.chmod(mode | 0o040)
            self.assertEqual(Path(self.refusal().where).name, path.name)
            path.chmod(mode)
        self.store.load()

    def test_link_elsewhere(self) -> None:
        """A link that leads out of the directory is refused."""
        self.joined()
        link = self.state / "identity" / "current"
        for target in ("../trust", "/", "."):
            link.unlink()
            link.symlink_to(target)
            self.assertIn("leads out", self.refusal().what)
        link.unlink()
        link.mkdir()
        self.assertIn("not a symbolic link", self.refusal().what)

    def test_other_cluster(self) -> None:
        """An identity of another cluster than the configuration's is refused at start."""
        self.joined()
        load = TransportIdentity.load
        self.assertRaises(ConfigError, load, self.store, self.world.now, "other.test")
        self.store.pin(World().keys.root_der)
        self.assertRaises(ConfigError, load, self.store, self.world.now)

    def test_expired_is_still_an_identity(self) -> None:
        """An expired identity is loaded and counts as one, so no token is used again."""
        self.joined()
        self.world.clock.advance(10 * 86400)
        identity = TransportIdentity.load(self.store, self.world.now)
        self.assertTrue(self.store.exists)
        self.assertTrue(identity.expired)
        self.assertLess(identity.seconds_left(), 0)
