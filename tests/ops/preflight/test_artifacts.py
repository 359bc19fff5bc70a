"""The artifacts of a release: signature, checksums, bill of materials."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from twisted.trial.unittest import SynchronousTestCase

from svc.model.release import SIGNATURE, SUMS, TARGET
from svc.ops.preflight.artifacts import (
    ArtifactsRefused,
    Bill,
    check_bill,
    check_signature,
    check_sums,
)
from tests.ops.preflight.release import BILL, PROGRAM, SmallRelease, public_pem
from tests.support.proof import proves
from tests.support.tools import stock_tool


class ArtifactTests(SynchronousTestCase):
    """What is believed, and what is refused."""

    def setUp(self) -> None:
        base = Path(os.path.abspath(self.mktemp()))
        base.mkdir()
        self.release = SmallRelease(base / "release")

    def checked(self) -> Bill:
        """What the three checks say, in their order."""
        directory = self.release.directory
        sums = check_signature(directory, self.release.public)
        return check_bill(directory, check_sums(directory, sums))

    def assert_refused(self, words: str) -> None:
        """The checks refuse, and say this."""
        self.assertIn(words, self.assertRaises(ArtifactsRefused, self.checked).text)

    def test_good(self) -> None:
        """A release that is whole tells its version, its target and how many components it has."""
        found = self.checked()
        self.assertEqual((found.version.tag, found.target, found.components), (TAG, "any", 1))

    @proves("U-OPEN-01", "X-26", "U-REL-12", "U-REL-13")
    def test_stock_tools(self) -> None:
        """`openssl dgst -verify` and `sha256sum -c` agree, in the directory itself."""
        directory, openssl = self.release.directory, stock_tool("openssl")
        raw = directory.parent / "raw.sig"
        raw.write_bytes(base64.b64decode((directory / SIGNATURE).read_bytes()))

        def verified() -> int:
            words = [openssl, "dgst", "-sha256", "-verify", str(self.release.public)]
            words += ["-signature", str(raw), SUMS]
            return subprocess.run(words, cwd=directory, capture_output=True).returncode

        def summed() -> int:
            words = [stock_tool("sha256sum", "coreutils"), "-c", "--strict", SUMS]
            return subprocess.run(words, cwd=directory, capture_output=True).returncode

        self.assertEqual((verified(), summed()), (0, 0))
        listed = (directory / SUMS).read_text()
        self.assertNotIn(SUMS, listed)
        (directory / PROGRAM).write_bytes(b"#!/bin/sx\n")
        self.assertEqual((verified(), summed()), (0, 1))
        self.assert_refused("has the SHA-256")
        (directory / SUMS).write_text(listed.replace("a", "b"))
        self.assertEqual(verified(), 1)
        self.assert_refused("is no signature of SHA256SUMS")

    def test_signed_by_openssl(self) -> None:
        """A signature that is not in Base64, as openssl writes it, is the same."""
        path = self.release.directory / SIGNATURE
        path.write_bytes(base64.b64decode(path.read_bytes()))
        self.checked()

    def test_other_keys(self) -> None:
        """Another key refuses it, and so does what is no such key."""
        self.release.public.write_bytes(public_pem(ec.generate_private_key(ec.SECP256R1())))
        self.assert_refused("is no signature of SHA256SUMS")
        self.release.public.write_bytes(public_pem(ec.generate_private_key(ec.SECP384R1())))
        self.assert_refused("is no public key of ECDSA over P-256")
        self.release.public.write_bytes(b"key")
        self.assert_refused("is no public key of ECDSA over P-256")
        self.release.public.unlink()
        self.assert_refused("no such file")

    def test_lists(self) -> None:
        """A signed list that names what it must not, or leaves out the bill, is refused."""
        good = (self.release.directory / SUMS).read_bytes()
        digest = hashlib.sha256(b"").hexdigest().encode()
        for line, words in (
            (digest + b"  ../up\n", "line 3"),
            (digest + b"  a/b\n", "line 3"),
            (digest + b"  SHA256SUMS\n", "lists SHA256SUMS, which it must not"),
            (digest + b"  SHA256SUMS.sig\n", "which it must not"),
            (digest + b"  " + PROGRAM.encode() + b"\n", "which it must not"),
            (digest + b"  missing\n", "no such file"),
            (b"\xff\n", "line 3"),
            (b"\n", "line 3"),
        ):
            self.release.sign(good + line)
            self.assert_refused(words)
        self.release.sign(b"")
        self.assert_refused("lists nothing")
        for keep in good.splitlines(keepends=True):
            self.release.sign(keep)
            self.assert_refused("a release has one and at least one")
        self.release.sign(b"a" * (1 << 21))
        self.assert_refused("is longer than")

    def test_no_plain_file(self) -> None:
        """A pipe or a directory in the place of an artifact is refused, and not waited for."""
        path = self.release.directory / PROGRAM
        for make in (os.mkfifo, os.mkdir):
            path.unlink()
            make(path)
            self.assert_refused("is not a regular file")
            if path.is_dir():
                break

    @proves("U-REL-11")
    def test_bills(self) -> None:
        """A bill of another program or version, without components or target, is refused."""
        bill = self.release.bill
        component = bill["metadata"]["component"]
        changes: tuple[tuple[Callable[[], object], str], ...] = (
            (lambda: component.update(name="other"), "is the bill of 'other'"),
            (lambda: component.update(name="svc", version="1.0.0"), "is of version '1.0.0'"),
            (lambda: component.update(version="0.11.0-rc.7", properties=[]), TARGET),
            (lambda: bill.update(components=[]), TARGET),
            (lambda: bill.update(components=3), "is no CycloneDX document"),
            (
                lambda: bill.update(metadata=[], components=[{"name": "attrs"}]),
                "is no CycloneDX document",
            ),
        )
        for change, words in changes:
            change()
            self.release.write()
            self.assert_refused(words)
        path = self.release.directory / BILL
        path.write_text("[" * 100_000)
        sums = check_signature(self.release.directory, self.release.public).decode()
        line = f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {BILL}\n"
        self.release.sign((line + sums.splitlines(keepends=True)[1]).encode())
        self.assert_refused("is no CycloneDX document")


TAG = "v0.11.0-rc.7"
