"""A small release, signed by a key of the test's own."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from svc import __version__
from svc.model.release import SIGNATURE, SUMS, TARGET

TAG, VERSION = f"v{__version__}", __version__
BILL, PROGRAM = f"svc-{TAG}.cdx.json", f"svc-{TAG}-any"


class SmallRelease:
    """A directory with a program, its bill of materials, the checksums and their signature."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir()
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.public = directory.parent / "svc-release.pub"
        self.public.write_bytes(public_pem(self.key))
        self.bill: dict[str, Any] = {
            "bomFormat": "CycloneDX",
            "specVersion": "1.5",
            "metadata": {
                "component": {
                    "name": "svc",
                    "version": VERSION,
                    "properties": [{"name": TARGET, "value": "any"}],
                }
            },
            "components": [{"name": "attrs", "version": "25.4.0"}],
        }
        self.write()

    def write(self, bill: str = BILL) -> None:
        """The files, with checksums and signature that fit."""
        (self.directory / PROGRAM).write_bytes(b"#!/bin/sh\n")
        (self.directory / bill).write_text(json.dumps(self.bill))
        lines = [
            f"{hashlib.sha256((self.directory / name).read_bytes()).hexdigest()}  {name}\n"
            for name in (bill, PROGRAM)
        ]
        self.sign("".join(lines).encode())

    def sign(self, sums: bytes) -> None:
        """These checksums, signed."""
        (self.directory / SUMS).write_bytes(sums)
        made = self.key.sign(sums, ec.ECDSA(SHA256()))
        (self.directory / SIGNATURE).write_bytes(base64.b64encode(made) + b"\n")


def public_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """The public half, as it is published."""
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
