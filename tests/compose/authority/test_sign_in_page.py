"""The certificate of the sign-in page is followed, and its troubles are told."""

from __future__ import annotations

import os
import time
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from twisted.internet.endpoints import TCP4ServerEndpoint
from twisted.internet.protocol import ServerFactory
from twisted.internet.testing import MemoryReactor
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from svc.compose.authority.sign_in_page import CertificateReading, SignInPort
from svc.pki.public_tls import PublicCertificate
from svc.runtime.threads import inline
from tests.authority.house import value_of
from tests.support.public_name import write_certificate


class CertificateReadingTests(SynchronousTestCase):
    """Files on a disk, read again."""

    def setUp(self) -> None:
        directory = Path(os.path.abspath(self.mktemp()))
        directory.mkdir()
        self.files = PublicCertificate(directory / "cert.pem", directory / "key.pem")
        self.at = time.time()
        self.reading = CertificateReading(
            certificate=self.files, in_thread=inline, now=lambda: self.at, host="sign-in.test"
        )
        self.write(ec.generate_private_key(ec.SECP256R1()))

    def write(
        self,
        key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey,
        name: str = "sign-in.test",
        days: int = 1,
    ) -> None:
        """Put a certificate, good for so many days, and its key there."""
        write_certificate(self.files.cert, self.files.key, name, key, days)

    def said(self) -> list[str]:
        """What one look at the files has to say."""
        with capturedLogs() as events:
            value_of(self.reading.read())
        return [f"{one['log_format']}: {one.get('reason', '')}" for one in events]

    def test_what_cannot_be_served(self) -> None:
        """A pair that OpenSSL refuses is not taken, and a warning says why."""
        self.assertIn("was read again", self.said()[0])
        self.write(rsa.generate_private_key(65537, 1024))
        (said,) = self.said()
        self.assertIn("is not replaced", said)
        self.assertIn("key too small", said)

    def test_ended(self) -> None:
        """That a certificate has ended is told once, until it is another."""
        self.said()
        self.assertEqual(self.said(), [])
        self.at += 2 * 86_400
        (said,) = self.said()
        self.assertIn("browsers refuse the certificate", said)
        self.assertIn("ended at", said)
        self.assertEqual(self.said(), [])
        self.at -= 2 * 86_400
        self.assertEqual(self.said(), [])

    def ends_soon(self) -> list[tuple[str, int]]:
        """The warnings of a coming end that one look gives: level, and whole days that are left."""
        with capturedLogs() as events:
            value_of(self.reading.read())
        told = [one for one in events if "ends soon" in one["log_format"]]
        return [(one["log_level"].name, one["days"]) for one in told]

    def test_ends_soon(self) -> None:
        """Its coming end is told 14 and 3 days before, once each, until it is renewed."""
        key = ec.generate_private_key(ec.SECP256R1())
        self.write(key, days=90)
        self.assertEqual(self.ends_soon(), [])
        begun, told = self.at, {}
        for day in range(92):
            self.at = begun + day * 86_400 + 60
            for level, left in self.ends_soon():
                told[day] = (level, left)
        self.assertEqual(told, {76: ("warn", 13), 87: ("error", 2)})
        self.assertLess(self.reading.seconds_left, 0)
        self.at = begun + 80 * 86_400 + 60  # a slow machine writes them seconds later
        self.write(key, days=90 + 85)
        self.assertEqual(self.ends_soon(), [])
        # Renewed too late, or the files of another: told of that one anew.
        self.write(key, days=82)
        self.assertEqual(self.ends_soon(), [("error", 1)])

    def test_a_short_life(self) -> None:
        """One that lives for six days is no cause for a warning until a third of that is left."""
        self.write(ec.generate_private_key(ec.SECP256R1()), days=6)
        self.assertEqual(self.ends_soon(), [])
        self.at += 4 * 86_400 + 3600
        self.assertEqual(self.ends_soon(), [("warn", 1)])

    def test_another_name(self) -> None:
        """A certificate that has not the public name is served, and a warning says whose it is."""
        self.said()
        key = ec.generate_private_key(ec.SECP256R1())
        self.write(key, "www.sign-in.test")
        _, said = self.said()
        self.assertIn("browsers refuse the certificate", said)
        self.assertIn("is for www.sign-in.test; get one for sign-in.test", said)
        for covering in ("SIGN-IN.test", "*.test"):
            self.write(key, covering)
            self.assertEqual(len(self.said()), 1)


class SignInPortTests(SynchronousTestCase):
    """The listener in the log."""

    def test_where_it_is(self) -> None:
        """The log says at which address browsers find the page, once it listens."""
        port = SignInPort(
            key="accounts.passkeys.listen",
            address="127.0.0.1:443",
            endpoint=TCP4ServerEndpoint(MemoryReactor(), 443),
            factory=ServerFactory(),
            origin="https://sign-in.test",
        )
        with capturedLogs() as events:
            port.startService()
        self.addCleanup(port.stopService)
        self.assertIsNotNone(port.bound)
        (said,) = [one for one in events if one["log_namespace"] == "svc_authority"]
        self.assertEqual(
            (said["log_format"], said["url"]), ("sign-in page served", "https://sign-in.test")
        )
