"""The key directory of an Authority: written whole, checked whole."""

from __future__ import annotations

import os
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import ConfigError
from svc.model.principal import Role
from svc.model.signing import Purpose
from svc.pki import profile
from svc.pki.files import certificates_pem, key_pem
from svc.pki.keyring import (
    add_purpose,
    create_cluster,
    load_keys,
    renew_issuer,
    renew_purpose,
    root_key_pem,
)
from svc.pki.root import ClusterKeys, WrongPurpose, new_key
from svc.pki.verify import ChainVerifier
from tests.pki.candidate import make_keys_old
from tests.pki.support import CLUSTER, World, forged
from tests.support.proof import proves


class KeyringTests(SynchronousTestCase):
    """One key directory."""

    def setUp(self) -> None:
        self.world = World()
        state = Path(self.mktemp())
        state.mkdir(mode=0o700)
        self.directory = state / "keys"

    def create(self, **kept: bool) -> ClusterKeys:
        return create_cluster(self.directory, CLUSTER, self.world.now, self.world.entropy, **kept)

    def load(self, **kept):  # type: ignore[no-untyped-def]
        return load_keys(self.directory, self.world.now, self.world.entropy, **kept)

    def refusal(self, name: str, **kept) -> str:  # type: ignore[no-untyped-def]
        error = self.assertRaises(ConfigError, self.load, **kept)
        self.assertEqual(error.where, str(self.directory / name) if name else str(self.directory))
        return str(error.what)

    def replace(self, name: str, data: bytes) -> None:
        (self.directory / name).write_bytes(data)

    def test_round_trip(self) -> None:
        """The keys that were written are the keys that are read, and they work."""
        made, read = self.create(), self.load(cluster=CLUSTER)
        self.assertEqual((made.ca_pin, made.cluster), (read.ca_pin, read.cluster))
        self.assertIsNotNone(read.root_key)
        for purpose in profile.SIGNED_BY:
            signed = read.signer(purpose)(b"bytes")
            self.assertEqual(len(signed.chain), 1)
        self.assertEqual(set(read.issuers), {"transport", "spiffe"})
        self.assertEqual(read.issuer_for(Role.OPERATOR).kind, "spiffe")
        self.assertRaises(KeyError, read.issuer_for, Role.PURPOSE)

    def test_a_key_of_later(self) -> None:
        """A purpose key that an older directory lacks is made with the root's key, once."""
        made = self.create(keep_root_key=False)
        for end in ("pem", "key"):
            (self.directory / f"audit-origin.{end}").unlink()
        self.assertIn("svc authority state adopt", self.refusal("audit-origin.pem"))
        now, entropy = self.world.now, self.world.entropy
        apart = self.directory.with_name("root.key")
        with self.assertRaises(ConfigError):
            add_purpose(self.directory, "audit-origin", now, entropy)
        for key, is_good in ((key_pem(new_key()), False), (root_key_pem(made), True)):
            apart.write_bytes(key)
            apart.chmod(0o600)
            if not is_good:
                with self.assertRaises(ConfigError):
                    add_purpose(self.directory, "audit-origin", now, entropy, apart)
        self.assertTrue(add_purpose(self.directory, "audit-origin", now, entropy, apart))
        signed = self.load().signer(Purpose.AUDIT_ORIGIN)(b"bytes")
        self.world.verifier = ChainVerifier(CLUSTER, made.root_der, now)
        self.world.verifier.verify_signed(signed, Purpose.AUDIT_ORIGIN)
        self.assertFalse(add_purpose(self.directory, "audit-origin", now, entropy, apart))

    def test_modes(self) -> None:
        """The directory is 0700, each file 0600, whatever the umask."""
        old = os.umask(0)
        try:
            self.create()
        finally:
            os.umask(old)
        self.assertEqual(self.directory.stat().st_mode & 0o777, 0o700)
        self.assertEqual({p.stat().st_mode & 0o777 for p in self.directory.iterdir()}, {0o600})

    def test_offline_root(self) -> None:
        """Without the root key everything is signed as before; the key was given once."""
        made = self.create(keep_root_key=False)
        self.assertIn(b"PRIVATE KEY", root_key_pem(made))
        self.assertFalse((self.directory / "root.key").exists())
        read = self.load()
        self.assertIsNone(read.root_key)
        self.assertRaises(ConfigError, root_key_pem, read)

    def test_never_overwritten(self) -> None:
        """Keys that exist are never overwritten; what a crash left over is."""
        self.directory.with_name(".keys.new").mkdir()
        self.create()
        self.assertRaises(ConfigError, self.create)

    def test_missing(self) -> None:
        """Each missing key of the cluster but the root's stops the start and is named."""
        self.refusal("")
        self.create()
        for path in sorted(self.directory.iterdir()):
            if path.name in ("root.key", "credentials.key", "recording.key"):
                continue
            kept = path.read_bytes()
            path.unlink()
            self.refusal(path.name)
            path.write_bytes(kept)
            path.chmod(0o600)
        self.load()

    def test_a_cluster_of_before(self) -> None:
        """One that was made before tokens were signed starts without their key, and can get it."""
        self.create()
        for half in ("pem", "key"):
            (self.directory / f"jwt.{half}").unlink()
        self.assertNotIn("jwt", self.load().purposes)
        renew_purpose(self.directory, "jwt", self.world.now, self.world.entropy)
        self.assertIn("jwt", self.load().purposes)

    @proves("U-BAK-07")
    def test_mismatched_pairs(self) -> None:
        """A key that is not its certificate's is named."""
        self.create()
        for name in ("root", "transport", "spiffe", "grant", "snapshot", "anchor", "audit-origin"):
            path = self.directory / f"{name}.key"
            kept = path.read_bytes()
            path.write_bytes(key_pem(new_key()))
            self.assertIn("does not match", self.refusal(path.name))
            path.write_bytes(kept)
        self.load()

    def test_swapped_pairs(self) -> None:
        """A whole pair under another's name is refused: its certificate says what it is for."""
        self.create()
        for ours, other in (("grant", "snapshot"), ("transport", "spiffe"), ("grant", "spiffe")):
            kept = {}
            for end in ("pem", "key"):
                kept[end] = (self.directory / f"{ours}.{end}").read_bytes()
                self.replace(f"{ours}.{end}", (self.directory / f"{other}.{end}").read_bytes())
            self.refusal(f"{ours}.pem")
            for end, data in kept.items():
                self.replace(f"{ours}.{end}", data)
        self.load()

    def test_other_root(self) -> None:
        """Files of another cluster, or another root of the same name, are refused."""
        made = self.create()
        self.refusal("root.pem", cluster="other.test")
        other = World().keys
        self.replace("transport.pem", certificates_pem(other.issuers["transport"].certificate))
        self.refusal("transport.pem")
        self.replace("transport.pem", certificates_pem(made.issuers["transport"].certificate))
        self.replace("root.pem", certificates_pem(other.root))
        self.refusal("root.key")

    def test_owner_and_mode(self) -> None:
        """Files of another user, or open to others, or behind a link, stop the start."""
        self.create()
        self.assertIn("uid", self.refusal("", uid=os.geteuid() + 1))
        self.directory.chmod(0o750)
        self.assertIn("0750", self.refusal(""))
        self.directory.chmod(0o700)
        key = self.directory / "grant.key"
        key.chmod(0o640)
        self.assertIn("0640", self.refusal("grant.key"))
        key.chmod(0o600)
        moved = key.rename(self.directory / "moved")
        key.symlink_to(moved)
        self.refusal("grant.key")

    def test_garbage(self) -> None:
        """Files that hold something else are named, and nothing of them is shown."""
        self.create()
        curve = ec.generate_private_key(ec.SECP384R1())
        for name, data in (
            ("spiffe.pem", b"secret words"),
            ("spiffe.pem", b""),
            ("transport.pem", (self.directory / "spiffe.pem").read_bytes() * 2),
            ("transport.key", b"secret words"),
            ("transport.key", key_pem(curve)),
            ("root.pem", b"x" * 70_000),
        ):
            kept = (self.directory / name).read_bytes()
            self.replace(name, data)
            self.assertNotIn("secret words", self.refusal(name))
            self.replace(name, kept)

    def test_unreadable_extension(self) -> None:
        """A certificate with an extension that cannot be read is named."""
        self.create()
        names = x509.UnrecognizedExtension(
            x509.SubjectAlternativeName.oid, bytes.fromhex("3004a3023000")
        )
        (data, _) = forged(self.world, uris=[], extra=[(names, False)])
        pem = certificates_pem(x509.load_der_x509_certificate(data))
        self.replace("transport.pem", pem)
        self.assertIn("no certificate that can be read", self.refusal("transport.pem"))

    def test_expired(self) -> None:
        """Issuing CAs that have expired stop the start and say what to do."""
        self.create(keep_root_key=False)
        self.world.clock.advance(profile.ISSUER_LIFETIME)
        self.assertIn("root key", self.refusal("transport.pem"))
        self.world.clock.advance(profile.ROOT_LIFETIME)
        self.assertIn("expired", self.refusal("root.pem"))

    def test_of_a_candidate(self) -> None:
        """Keys of an earlier candidate stop the start, and none of them is renewed."""
        self.create()
        make_keys_old(self.directory)
        before = {path: path.read_bytes() for path in self.directory.iterdir()}
        text = self.refusal("transport.pem")
        for word in ("an earlier candidate", "private extensions", "never released", "svc init"):
            self.assertIn(word, text)
        now, entropy = self.world.now, self.world.entropy
        with self.assertRaisesRegex(ConfigError, "earlier candidate"):
            renew_purpose(self.directory, "grant", now, entropy)
        with self.assertRaisesRegex(ConfigError, "earlier candidate"):
            renew_issuer(self.directory, "spiffe", now, entropy, profile.DAY)
        with self.assertRaisesRegex(ConfigError, "earlier candidate"):
            (self.directory / "anchor.pem").unlink()
            add_purpose(self.directory, "anchor", now, entropy)
        del before[self.directory / "anchor.pem"]
        self.assertEqual(before, {path: path.read_bytes() for path in self.directory.iterdir()})

    def test_renewing_what_is_damaged(self) -> None:
        """A certificate that cannot be read any more is made again by renewing it."""
        self.create()
        self.replace("grant.pem", b"")
        renew_purpose(self.directory, "grant", self.world.now, self.world.entropy)
        self.load()

    def test_wrong_purpose(self) -> None:
        """A purpose key is never talked into signing for another purpose."""
        grant = self.create().purposes["grant"]
        self.assertRaises(WrongPurpose, grant.sign, Purpose.SNAPSHOT, b"bytes")

    def test_repr(self) -> None:
        """Showing the keys shows no key."""
        self.assertNotIn("PrivateKey", repr(self.create()))
