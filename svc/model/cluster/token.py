"""Join tokens: the one-use secrets that give a node or person its first identity.

A token reads ``svcj1_<id>_<secret>_<check>``: 16 base32 characters, 32 random
bytes in base64url, the CRC-32 of all before it in eight hex digits.  The check
catches a token cut short or mistyped before it travels; it is no protection.
The store keeps the id and the SHA-256 of the secret, never the secret.
A token names no cluster and carries no certificate: its user pins the root.
"""

from __future__ import annotations

import re
from base64 import b32encode, urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from hmac import compare_digest
from zlib import crc32

from attrs import field, frozen

from svc.errors import Fault, SvcError
from svc.model.ids import Entropy
from svc.model.principal import Role

SECRET_BYTES = 32

MAX_TOKEN_BYTES = 256
"""Texts longer than this are refused unread."""

_ID_BYTES = 10
_FORM = re.compile(r"svcj1_([a-z2-7]{16})_([A-Za-z0-9_-]{43})_([0-9a-f]{8})\Z")


class TokenRefused(SvcError):
    """A text that is no join token; the refusal never repeats any of it."""

    fault = Fault.INVALID
    reason = "token_malformed"


@frozen
class JoinToken:
    """A complete token with its secret: keep it only until it is used.

    Its repr shows the id only, so it may stand in an event by accident.
    """

    id: str
    secret: bytes = field(repr=False)

    @property
    def text(self) -> str:
        """The token as it is shown once to the operator who asked for it."""
        secret = urlsafe_b64encode(self.secret).decode("ascii").rstrip("=")
        body = f"svcj1_{self.id}_{secret}"
        return f"{body}_{crc32(body.encode('ascii')):08x}"

    @property
    def secret_sha256(self) -> bytes:
        """What the store keeps: the SHA-256 of the secret, 32 bytes."""
        return sha256(self.secret).digest()

    def matches(self, stored_sha256: bytes) -> bool:
        """Whether the store's hash is this token's; takes the same time either way."""
        return compare_digest(self.secret_sha256, stored_sha256)


@frozen
class TokenGrant:
    """What a token, once spent in the store, entitles its bearer to.

    Attributes:
        role: The one role the bearer may take.
        subject_id: The person's or operator's id, made when the token was;
            empty for nodes, whose id comes from their key.
        name: The registry's name of the joiner; a label, never an identity.
        names: DNS names and IP addresses the operator allowed the
            certificate to carry; what a node asks for does not count.
    """

    token_id: str
    role: Role
    subject_id: str = ""
    name: str = ""
    names: tuple[str, ...] = ()


def make_token(entropy: Entropy) -> JoinToken:
    """A new token: 80 random bits of id, 256 of secret."""
    return JoinToken(b32encode(entropy(_ID_BYTES)).decode("ascii").lower(), entropy(SECRET_BYTES))


def parse_token(text: str) -> JoinToken:
    """The token in *text*; white space around it (a file's last newline) is let pass.

    Raises:
        TokenRefused: saying what is wrong with its form.
    """
    if len(text) > MAX_TOKEN_BYTES:
        raise TokenRefused("join token: it is too long")
    if not text.strip():
        raise TokenRefused("join token: none was given")
    match = _FORM.match(text.strip(" \t\r\n"))
    if match is None:
        raise TokenRefused("join token: it does not have the form svcj1_<id>_<secret>_<check>")
    token = JoinToken(match[1], urlsafe_b64decode(match[2] + "="))
    if not compare_digest(token.text, match[0]):
        raise TokenRefused("join token: its checksum does not match, so it was cut or mistyped")
    return token
