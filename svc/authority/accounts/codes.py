"""Codes that people type: of TOTP (RFC 6238), for recovery, for an enrollment; pure."""

from __future__ import annotations

import re
from base64 import b32encode
from collections.abc import Iterable
from hashlib import sha256
from hmac import compare_digest

import pyotp
from pyotp.utils import strings_equal

from svc.model.ids import Entropy

MAX_CODE = 64
"""Characters; longer texts are refused unread."""

TOTP_SECRET_BYTES = 20
_STEP = 30
_EITHER_SIDE = 1
_TOTP_FORM = re.compile(r"[0-9]{6}\Z")
_RECOVERY_BYTES, _ENROLLMENT_BYTES = 10, 20


def totp_secret(entropy: Entropy) -> bytes:
    """A new secret of TOTP, as it is kept."""
    return b32encode(entropy(TOTP_SECRET_BYTES))


def totp_uri(secret: bytes, name: str, cluster: str) -> str:
    """What an authenticator app reads, as text or QR code."""
    return pyotp.TOTP(secret.decode()).provisioning_uri(name=name, issuer_name=cluster)


def is_totp(code: str) -> bool:
    """Whether a text has the form of a code of TOTP."""
    return _TOTP_FORM.match(code) is not None


def totp_step(secret: bytes, code: str, now: float) -> int | None:
    """The step that a code is of: this one, the one before or the next; None: of none of them.

    Takes the same time whichever it is.
    """
    made, found = pyotp.TOTP(secret.decode()), None
    current = int(now) // _STEP
    for step in range(current - _EITHER_SIDE, current + _EITHER_SIDE + 1):
        if strings_equal(made.at(step * _STEP), code):
            found = step
    return found


def recovery_code(entropy: Entropy) -> str:
    """A new recovery code: 80 random bits."""
    return _grouped(entropy(_RECOVERY_BYTES))


def enrollment_code(entropy: Entropy) -> str:
    """A new enrollment code: 160 random bits."""
    return _grouped(entropy(_ENROLLMENT_BYTES))


def code_sha256(code: str) -> bytes:
    """What is kept of a recovery or enrollment code, however it was grouped when it was typed."""
    return sha256(_plain(code).encode("utf-8")).digest()


def matching(hashes: Iterable[tuple[str, bytes]], code: str) -> str | None:
    """The id of the hash that is the code's; every one is compared."""
    wanted, found = code_sha256(code), None
    for id, kept in hashes:
        if compare_digest(kept, wanted):
            found = id
    return found


def _plain(code: str) -> str:
    return re.sub(r"[\s-]", "", code).lower()


def _grouped(data: bytes) -> str:
    text = b32encode(data).decode("ascii").lower()
    return "-".join(text[at : at + 4] for at in range(0, len(text), 4))
