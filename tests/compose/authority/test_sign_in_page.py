"""The certificate of the sign-in page is followed, and its troubles are told."""

from __future__ import annotations

import os
import time
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from svc.compose.authority.sign_in_page import CertificateReading
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
        self.reading = CertificateReading(self.files, inline, lambda: self.at)
        self.write(ec.generate_private_key(ec.SECP256R1()))

    def write(self, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> None:
        """Put a certificate, good for a day, and its key there."""
        write_certificate(self.files.cert, self.files.key, "sign-in.test", key)

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
