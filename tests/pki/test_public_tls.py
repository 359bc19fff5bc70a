"""The certificate of a public name, which an operator keeps in files and replaces."""

from __future__ import annotations

import os
import time
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from OpenSSL import SSL
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import ConfigError
from svc.pki.files import certificates_pem, key_pem
from svc.pki.public_tls import PublicCertificate
from tests.support.public_name import certificate_of, write_certificate


class PublicCertificateTests(SynchronousTestCase):
    """Files on a disk."""

    def setUp(self) -> None:
        directory = Path(os.path.abspath(self.mktemp()))
        directory.mkdir()
        self.found = PublicCertificate(directory / "cert.pem", directory / "key.pem")
        self.write(ec.generate_private_key(ec.SECP256R1()))

    def write(self, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
        """Put a certificate and its key there; the certificate."""
        return write_certificate(self.found.cert, self.found.key, "sign-in.test", key)

    def shown(self, *versions: int) -> bytes:
        """The certificate that a client is shown."""
        context = SSL.Context(SSL.TLS_CLIENT_METHOD)
        for version in versions:
            context.set_max_proto_version(version)
        client, server = SSL.Connection(context, None), self.found.serverConnectionForTLS(None)  # type: ignore[arg-type]
        client.set_connect_state()
        server.set_accept_state()
        for _ in range(4):
            for one, other in ((client, server), (server, client)):
                try:
                    one.do_handshake()
                except SSL.WantReadError:
                    pass
                try:
                    other.bio_write(one.bio_read(65_536))
                except SSL.WantReadError:
                    pass
        chain = client.get_peer_cert_chain(as_cryptography=True)
        return certificates_pem(*(chain or ()))

    def test_replaced(self) -> None:
        """New files are in force for the next connection; what did not change is not read anew."""
        before = self.found.cert.read_bytes()
        self.assertTrue(self.found.load())
        self.assertFalse(self.found.load())
        self.assertEqual(self.shown(), before)
        after = self.write(ec.generate_private_key(ec.SECP256R1()))
        self.assertEqual(self.shown(), before)
        self.assertTrue(self.found.load())
        self.assertEqual(self.shown(), after)

    def test_chain(self) -> None:
        """What stands above the certificate goes along; a key may be RSA's."""
        key = rsa.generate_private_key(65537, 2048)
        above = certificate_of("issuer.test", ec.generate_private_key(ec.SECP256R1()))
        pem = certificates_pem(certificate_of("sign-in.test", key), above)
        self.found.cert.write_bytes(pem)
        self.found.key.write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        )
        self.found.load()
        self.assertEqual(self.shown(), pem)

    def test_key_too_short(self) -> None:
        """A key that OpenSSL takes for no server is refused by its file, like any other."""
        before = self.found.cert.read_bytes()
        self.found.load()
        self.write(rsa.generate_private_key(65537, 1024))
        refused = self.assertRaises(ConfigError, self.found.load)
        self.assertIn("cert.pem", str(refused))
        self.assertIn("key too small", str(refused))
        self.assertEqual(self.shown(), before)

    def test_problem(self) -> None:
        """Browsers refuse a certificate that is not valid now: one that ended, or begins later."""
        self.found.load()
        for days, says in ((0, ""), (2, "ended at 2"), (-1, "is valid only from 2")):
            with self.subTest(days):
                said = self.found.problem(time.time() + days * 86_400)
                self.assertEqual(bool(said), days != 0)
                self.assertIn(says, said)
                self.assertIn("cert.pem" if said else "", said)

    def test_old_tls(self) -> None:
        """TLS 1.2 is not taken: every browser that has passkeys has 1.3."""
        self.found.load()
        self.assertRaises(SSL.Error, self.shown, SSL.TLS1_2_VERSION)

    def test_refused(self) -> None:
        """Each file is named that is no good, and what was read before stays."""
        before = self.found.cert.read_bytes()
        self.found.load()
        other = key_pem(ec.generate_private_key(ec.SECP256R1()))
        for name, data, says in (
            ("cert.pem", b"no PEM", "no certificate"),
            ("key.pem", b"no PEM", "no private key"),
            ("key.pem", other, "is not the key of the certificate"),
            ("cert.pem", None, "cannot be read"),
            ("key.pem", None, ""),
        ):
            with self.subTest(says):
                path = self.found.cert.parent / name
                kept = path.read_bytes()
                path.unlink()
                if data is not None:
                    path.touch(0o600)
                    path.write_bytes(data)
                refused = self.assertRaises(ConfigError, self.found.load)
                self.assertIn(name, str(refused))
                self.assertIn(says, str(refused))
                self.assertEqual(self.shown(), before)
                path.touch(0o600)
                path.write_bytes(kept)
        self.found.key.chmod(0o644)
        self.assertRaises(ConfigError, self.found.load)
