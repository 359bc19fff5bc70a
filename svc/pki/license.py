"""The license file: signed JSON that says until when; nothing depends on there being one.

``{"license": BASE64, "signature": BASE64}``: the first is a JSON document with ``expires`` (RFC
3339, UTC), the second its Ed25519 signature by the maker of the build, over :data:`DOMAIN` and
the document.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from svc.errors import Fault, SvcError
from svc.runtime.given_file import given_file

PUBLIC_KEY = ""
"""The maker's key: Ed25519, 32 bytes in hex.  A maker of builds writes it here, and nowhere else:
it is no setting, so that nobody who configures a gateway can vouch for a license.  Empty: this
build knows of no license."""

DOMAIN = b"svc-license-v1\0"
MAX_BYTES = 1 << 16


class LicenseRefused(SvcError):
    """The file is no license that this build accepts."""

    fault = Fault.PRECONDITION
    reason = "license"


def license_expires(path: Path, public_key: str) -> float:
    """When the license in *path* expires, in seconds since the epoch; that may be past.

    Args:
        public_key: :data:`PUBLIC_KEY` of the build.

    Raises:
        LicenseRefused: it cannot be read, is malformed, or is not signed by that key.
    """
    if not public_key:
        raise LicenseRefused(f"{path}: this build has no key to verify a license with")
    try:
        with given_file(path, MAX_BYTES)() as file:
            text = file.read(MAX_BYTES + 1)
    except OSError as failed:
        why = (failed.strerror or "cannot be read").lower()
        raise LicenseRefused(f"{path}: {why}") from None
    if len(text) > MAX_BYTES:
        raise LicenseRefused(f"{path}: is longer than 64 KiB")
    try:
        given = json.loads(text)
        document = base64.b64decode(given["license"], validate=True)
        signature = base64.b64decode(given["signature"], validate=True)
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key))
        key.verify(signature, DOMAIN + document)
        return _expires(json.loads(document))
    except InvalidSignature:
        raise LicenseRefused(f"{path}: its signature is not by the maker of this build") from None
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        raise LicenseRefused(f"{path}: is not of the form of a license") from None


def _expires(document: Mapping[str, object]) -> float:
    moment = datetime.fromisoformat(str(document["expires"]))
    if moment.tzinfo is None:
        raise ValueError
    return moment.timestamp()
