"""SCRAM-SHA-256 and SCRAM-SHA-256-PLUS, the client's side (RFC 5802, 7677, 5929).

Pure.  The caller computes the salted password, which takes long by design, where it likes.
"""

from __future__ import annotations

import hmac
import re
import stringprep
import unicodedata
from base64 import b64decode, b64encode
from hashlib import pbkdf2_hmac, sha256

from attrs import define, field

from svc.errors import SvcError

SCRAM, SCRAM_PLUS = "SCRAM-SHA-256", "SCRAM-SHA-256-PLUS"

FEWEST_ITERATIONS, MOST_ITERATIONS = 4096, 1_000_000
"""Fewer make a stolen proof cheap to guess from; more would hold our processors."""

_FIRST = re.compile(r"r=([!-+\--~]+),s=([A-Za-z0-9+/=]+),i=([1-9][0-9]{0,9})\Z")
_FINAL = re.compile(r"v=([A-Za-z0-9+/=]+)\Z")


@define
class ScramClient:
    """One exchange.

    Args:
        nonce: Of this exchange alone; printable, without a comma.
        binding: The channel binding data (``tls-server-end-point``), where the mechanism is
            SCRAM-SHA-256-PLUS; None: it is not.
        could_bind: Whether there is such data, whatever the mechanism: a server that would have
            offered PLUS is then told that somebody hid the offer.
    """

    nonce: str
    binding: bytes | None
    could_bind: bool
    salt: bytes = field(default=b"", init=False)
    iterations: int = field(default=0, init=False)
    _exchange: str = field(default="", init=False)
    _last: str = field(default="", init=False)
    _signature: bytes = field(default=b"", init=False)

    @property
    def _header(self) -> bytes:
        if self.binding is not None:
            return b"p=tls-server-end-point,,"
        return b"y,," if self.could_bind else b"n,,"

    def first(self) -> bytes:
        """What the client says first; PostgreSQL takes the role's name from elsewhere."""
        return self._header + f"n=,r={self.nonce}".encode("ascii")

    def challenged(self, data: bytes) -> None:
        """Take the server's salt and number of iterations.

        Raises:
            SvcError: ``target_untrusted``: it is not of this exchange, or not within bounds.
        """
        found = _FIRST.match(_text(data))
        if found is None or not found[1].startswith(self.nonce) or found[1] == self.nonce:
            raise _untrusted("the target's SCRAM challenge does not belong to this login")
        self.iterations = int(found[3])
        if not FEWEST_ITERATIONS <= self.iterations <= MOST_ITERATIONS:
            raise _untrusted(
                f"the target wants {self.iterations} SCRAM iterations; from {FEWEST_ITERATIONS} "
                f"to {MOST_ITERATIONS} are taken"
            )
        self.salt = _decoded(found[2])
        bound = b64encode(self._header + (self.binding or b"")).decode("ascii")
        self._exchange = f"n=,r={self.nonce},{found[0]},c={bound},r={found[1]}"
        self._last = f"c={bound},r={found[1]}"

    def proved(self, salted: bytes) -> bytes:
        """What the client says last, given the salted password."""
        exchange = self._exchange.encode("ascii")
        client_key = _mac(salted, b"Client Key")
        proof = _xor(client_key, _mac(sha256(client_key).digest(), exchange))
        self._signature = _mac(_mac(salted, b"Server Key"), exchange)
        return f"{self._last},p={b64encode(proof).decode('ascii')}".encode("ascii")

    def verify(self, data: bytes) -> None:
        """Return if the server knows the password, too.

        Raises:
            SvcError: ``target_untrusted``.
        """
        found = _FINAL.match(_text(data))
        said = b"" if found is None else _decoded(found[1])
        if not self._signature or not hmac.compare_digest(said, self._signature):
            raise _untrusted("the target does not know the password that it asked for")


def salted_password(password: bytes, salt: bytes, iterations: int) -> bytes:
    """PBKDF2; takes milliseconds to seconds."""
    return pbkdf2_hmac("sha256", prepared(password), salt, iterations)


def prepared(password: bytes) -> bytes:
    """The password as SASLprep (RFC 4013) has it; as it is where that refuses it, as libpq."""
    try:
        text = password.decode("utf-8")
    except UnicodeDecodeError:
        return password
    if text.isascii():
        return password
    mapped = "".join(
        " " if stringprep.in_table_c12(mark) else mark
        for mark in text
        if not stringprep.in_table_b1(mark)
    )
    normal = unicodedata.normalize("NFKC", mapped)
    if not normal or any(_is_prohibited(mark) for mark in normal) or _is_mixed(normal):
        return password
    return normal.encode("utf-8")


def _is_prohibited(mark: str) -> bool:
    tables = (
        stringprep.in_table_a1,
        stringprep.in_table_c12,
        stringprep.in_table_c21_c22,
        stringprep.in_table_c3,
        stringprep.in_table_c4,
        stringprep.in_table_c5,
        stringprep.in_table_c6,
        stringprep.in_table_c7,
        stringprep.in_table_c8,
        stringprep.in_table_c9,
    )
    return any(table(mark) for table in tables)


def _is_mixed(text: str) -> bool:
    """Whether its directions are such as RFC 3454 refuses."""
    if not any(map(stringprep.in_table_d1, text)):
        return False
    ends = stringprep.in_table_d1(text[0]) and stringprep.in_table_d1(text[-1])
    return any(map(stringprep.in_table_d2, text)) or not ends


def _text(data: bytes) -> str:
    return data.decode("ascii", "replace")


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise _untrusted("the target's SCRAM message is malformed") from None


def _mac(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, "sha256")


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


def _untrusted(text: str) -> SvcError:
    return SvcError(text, reason="target_untrusted")
