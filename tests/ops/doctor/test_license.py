"""A license: valid, invalid, expired, and none; nothing fails in any case."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from svc.compose.authority.license import show_license
from svc.model.clocks import utc
from svc.pki import license
from svc.pki.license import DOMAIN
from svc.telemetry.metrics import Metrics
from svc.testing.gateway.settings import AUTHORITY
from tests.ops.doctor.ended import CopyCase
from tests.support.proof import proves

SERIES = "svc_license_expires_unix"
DAY = 86400.0


class LicenseTests(CopyCase):
    """With a key of the test's own in the place where a build has its maker's."""

    def setUp(self) -> None:
        super().setUp()
        self.key = Ed25519PrivateKey.generate()
        self.patch(license, "PUBLIC_KEY", self.key.public_key().public_bytes_raw().hex())
        self.path = Path(os.path.abspath(self.mktemp()))

    def write(self, expires: float, key: Ed25519PrivateKey | None = None) -> None:
        """A license until then, signed by this key."""
        document = json.dumps({"expires": utc(expires), "holder": "Example"}).encode()
        signature = (key or self.key).sign(DOMAIN + document)
        texts = {"license": document, "signature": signature}
        said = {name: base64.b64encode(each).decode() for name, each in texts.items()}
        self.path.write_text(json.dumps(said))

    def shown(self) -> str:
        """The line of the series at an Authority that starts with this license; empty: none."""
        metrics = Metrics([AUTHORITY])
        show_license(self.copy.context(AUTHORITY, license_path=str(self.path)).settings, metrics)
        lines = metrics.text().decode().splitlines()
        return "".join(line for line in lines if line.startswith(SERIES))

    @proves("G-POL-07")
    def test_none(self) -> None:
        """Without one the series is absent, and doctor finds nothing."""
        self.assert_ok(AUTHORITY, "config.license", "nothing needs a license")
        metrics = Metrics([AUTHORITY])
        show_license(self.copy.settings(AUTHORITY), metrics)
        self.assertNotIn(f"\n{SERIES} ", metrics.text().decode())

    @proves("G-MET-37", "G-OPEN-59")
    def test_valid(self) -> None:
        """The series is when it expires."""
        expires = int(self.copy.at + DAY)
        self.write(expires)
        self.assertEqual(float(self.shown().split()[1]), expires)
        self.assert_ok(AUTHORITY, "config.license", utc(expires), license_path=str(self.path))

    @proves("G-OPEN-59")
    def test_expired(self) -> None:
        """One that expired is shown and warned of."""
        expires = int(self.copy.at - DAY)
        self.write(expires)
        self.assertEqual(float(self.shown().split()[1]), expires)
        self.assert_warned("expired at", "goes on working")

    @proves("G-OPEN-59")
    def test_invalid(self) -> None:
        """One of another key, or of another form, is warned of and not shown."""
        self.write(self.copy.at + DAY, Ed25519PrivateKey.generate())
        self.assert_warned("not by the maker of this build")
        self.assertEqual(self.shown(), "")
        for text in ("", "{}", "[]", "[" * 60_000, '{"license": "x", "signature": 3}'):
            self.path.write_text(text)
            self.assert_warned("not of the form of a license")
        self.path.write_text(" " * 70_000)
        self.assert_warned("longer than 64 KiB")
        self.path.unlink()
        self.assert_warned("no such file")
        self.assertEqual(self.shown(), "")
        self.patch(license, "PUBLIC_KEY", "")
        self.assert_warned("has no key")

    def assert_warned(self, *words: str) -> None:
        """Doctor warns, and says this; that is no finding."""
        self.assert_found(AUTHORITY, "config.license", "warn", *words, license_path=str(self.path))
