"""A receiver credential is one Authority's; what is sealed under a root opens under no other."""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.authority.recordings.key import (
    keep_key_in_use,
    load_recording_keys,
    read_recording_keys,
)
from svc.errors import ConfigError, SvcError
from svc.model.sodium import seal_to
from svc.pki import distribution
from svc.pki.distribution import KeySetRefused, RootFiles, open_key_set, seal_key_set
from svc.pki.receiver import (
    RECEIVER_FILE,
    ReceiverOfAnother,
    load_receiver,
    parse_receiver,
    receiver_pem,
)
from tests.pki.support import CLUSTER
from tests.support.examples import examples
from tests.support.nothing import nothing
from tests.support.proof import proves

AT = 1_800_000_000.0
PLACE = {"cluster": CLUSTER, "epoch": "1", "revision": "1"}
SECRET, OTHER = b"s" * 32, b"t" * 32


def salt(size: int) -> bytes:
    """The same each time."""
    return bytes(size)


class ReceiverTests(SynchronousTestCase):
    """``receiver.key``."""

    def setUp(self) -> None:
        self.state = Path(self.mktemp())
        self.state.mkdir(mode=0o700)
        self.path = self.state / RECEIVER_FILE

    def load(self, owner: str = "a1", **more: Any) -> Any:
        """As a start of *owner* does."""
        return load_receiver(self.state, CLUSTER, owner, AT, **more)

    @proves("U-NOTE-03", "G-OPEN-73")
    def test_made_once(self) -> None:
        """The first start makes it, of mode 0600; the next one reads the same."""
        made = self.load()
        self.assertEqual(self.path.stat().st_mode & 0o777, 0o600)
        self.assertEqual(self.load().receiver_key, made.receiver_key)
        self.assertNotEqual(made.sealing_key, made.receiver_key)
        self.assertIn(b"Owner: a1\nCreated: 2027-01-15T", self.path.read_bytes())
        self.assertIn(b"-----BEGIN PRIVATE KEY-----", self.path.read_bytes())

    @proves("U-NOTE-04", "X-55")
    def test_of_another(self) -> None:
        """Another owner's is refused, and both are named; the file stays as it is."""
        self.load()
        before = self.path.read_bytes()
        with self.assertRaisesRegex(
            ReceiverOfAnother, "credential of a1, and this Authority is a2"
        ):
            self.load("a2")
        self.assertEqual(self.path.read_bytes(), before)

    def test_given_a_name(self) -> None:
        """One of the Authority's own former name is replaced."""
        made = self.load("n1")
        named = self.load("a1", former="n1")
        self.assertEqual(named.owner, "a1")
        self.assertNotEqual(named.receiver_key, made.receiver_key)

    def test_open_to_others(self) -> None:
        """A file that others can read is no credential."""
        self.load()
        self.path.chmod(0o640)
        with self.assertRaisesRegex(ConfigError, "mode 0640"):
            self.load()

    @given(st.data())
    @settings(max_examples=examples(200), deadline=None)
    def test_changed(self, data: Any) -> None:
        """Owner, time and key belong together: whatever is changed in the file, it is refused."""
        pem = receiver_pem(self.load(), CLUSTER)
        at = data.draw(st.integers(0, len(pem) - 1))
        put = data.draw(st.binary(min_size=1, max_size=3))
        changed = pem[:at] + put + pem[at + 1 :]
        try:
            found = parse_receiver(changed, CLUSTER, "receiver.key")
        except ConfigError as refused:
            self.assertNotIn("PRIVATE", refused.text)
        else:
            known = self.load()
            self.assertEqual(
                (found.owner, found.created, found.receiver_key),
                (known.owner, known.created, known.receiver_key),
            )

    def test_unknown_sort_of_key(self) -> None:
        """A key of a sort that nobody knows is refused as any other file that holds none."""
        head, mark, body = receiver_pem(self.load(), CLUSTER).partition(
            b"-----BEGIN PRIVATE KEY-----\n"
        )
        text, end, rest = body.partition(b"\n-----END")
        key = b64decode(text).replace(b"\x06\x03\x2b\x65\x70", b"\x06\x03\x2b\x65\x7f")
        with self.assertRaisesRegex(ConfigError, "not a receiver credential"):
            parse_receiver(head + mark + b64encode(key) + end + rest, CLUSTER, "receiver.key")

    def test_another_cluster(self) -> None:
        """A credential of one cluster is none of another."""
        pem = receiver_pem(self.load(), CLUSTER)
        with self.assertRaisesRegex(ConfigError, "belongs to another cluster"):
            parse_receiver(pem, "other.example", "receiver.key")

    def test_sealed(self) -> None:
        """What is sealed to it opens with it, and with no other."""
        made = self.load()
        self.assertEqual(made.open(seal_to(made.sealing_key, SECRET)), SECRET)
        self.path.unlink()
        with self.assertRaisesRegex(SvcError, "sealed to another credential"):
            self.load().open(seal_to(made.sealing_key, SECRET))


class KeySetTests(SynchronousTestCase):
    """Key sets, and the roots they are sealed under."""

    def test_sealed(self) -> None:
        """It opens under its root, at its place, whole."""
        files = {"spiffe.key": b"\0key", "spiffe.pem": b"pem"}
        sealed = seal_key_set(SECRET, PLACE, files, salt)
        self.assertEqual(open_key_set(SECRET, PLACE, sealed), files)
        for secret, place, text in (
            (OTHER, PLACE, sealed),
            (SECRET, {**PLACE, "epoch": "2"}, sealed),
            (SECRET, {**PLACE, "revision": "2"}, sealed),
            (SECRET, PLACE, sealed[:-1]),
            (SECRET, PLACE, b""),
        ):
            with self.assertRaises(KeySetRefused):
                open_key_set(secret, place, text)

    def test_other_files(self) -> None:
        """A key set holds files of keys/ alone, and never the root's own key."""
        for name in ("root.key", "root-old.key", "../spiffe.key", "a/b.key", "x", ".key"):
            sealed = seal_key_set(SECRET, PLACE, {name: b""}, salt)
            with self.assertRaisesRegex(KeySetRefused, "none of it"):
                open_key_set(SECRET, PLACE, sealed)

    def test_installed(self) -> None:
        """A staged key set is checked, and comes into keys/ even if its way there was cut."""
        state = Path(self.mktemp())
        (state / "keys").mkdir(parents=True, mode=0o700)
        state.chmod(0o700)
        files = {"spiffe.key": b"\0key", "spiffe.pem": b"pem"}

        def refuse(_: Path) -> None:
            raise KeySetRefused("no")

        with self.assertRaises(KeySetRefused):
            distribution.stage(state, files, refuse)
        self.assertFalse(distribution.install(state, nothing))
        distribution.stage(state, files, lambda directory: None)
        with self.assertRaises(KeySetRefused):  # what was staged before stays until then
            distribution.stage(state, {"spiffe.key": b"other"}, refuse)
        (state / "keys" / "spiffe.key").write_bytes(b"\0key")  # as if it had been cut here
        self.assertTrue(distribution.install(state, nothing))
        self.assertFalse(distribution.install(state, nothing))
        for name in ("root.key", "root-2025.key"):
            (state / "keys" / name).write_bytes(b"root")
        for path in (state / "keys").iterdir():
            path.chmod(0o600)
        self.assertEqual(distribution.key_files(state / "keys"), files)

    def test_only_copies(self) -> None:
        """A key that this Authority made for itself is not lost to the one that is distributed."""
        state = Path(self.mktemp())
        state.mkdir(mode=0o700)
        (state / "keys").mkdir(mode=0o700)
        own = load_recording_keys(state / "keys", os.urandom).current
        files = {"recording.key": b"ab" * 32 + b"\n", "credentials.key": b"cd" * 32 + b"\n"}
        distribution.stage(state, files, nothing)
        self.assertTrue(distribution.install(state, keep_key_in_use))
        found = read_recording_keys(state / "keys")
        self.assertEqual(found.current.private.hex(), "ab" * 32)
        self.assertEqual(found.former, (own,))
        other = {**files, "recording.key": b"ef" * 32, "credentials.key": b"12" * 32 + b"\n"}
        with self.assertRaisesRegex(ConfigError, "credentials.key: is not the distributed one"):
            distribution.stage(state, other, nothing)
        distribution.stage(state, {**other, "credentials.key": files["credentials.key"]}, nothing)
        (state / "keys" / "credentials.key").write_bytes(b"12" * 32 + b"\n")
        before = distribution.key_files(state / "keys")
        with self.assertRaisesRegex(ConfigError, "credentials.key: is not the distributed one"):
            distribution.install(state, keep_key_in_use)
        self.assertEqual(distribution.key_files(state / "keys"), before)

    def test_roots(self) -> None:
        """A root is kept on the disk, for its owner alone."""
        kept = RootFiles(Path(self.mktemp()))
        self.assertIsNone(kept.secret(1))
        kept.keep(1, SECRET)
        kept.keep(2, OTHER)
        self.assertEqual((kept.secret(1), kept.secret(2)), (SECRET, OTHER))
        self.assertEqual((kept.directory / "1.root").stat().st_mode & 0o777, 0o600)
