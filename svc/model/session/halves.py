r"""How the two ends of a gated session agree on keys that its Proxy does not have (rule R24).

Pure over ``cryptography``.  Each end makes an X25519 key for one session.  The person signs the
public half with the session request, the Connector signs its own in its answer.  The keys of both
directions are HKDF-SHA256 of what they share, with ``svc-frames-v1\0``, SHA-256 of the signed
request and SHA-256 of the signed answer as info: they are of this session and of what both said.
"""

from __future__ import annotations

from hashlib import sha256

from attrs import field, frozen
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from svc.errors import Malformed

HALF_BYTES = 32
_KEY_BYTES = 32
_INFO = b"svc-frames-v1\0"


@frozen
class FrameKeys:
    """The keys of one session's frames; never sent, kept or logged."""

    requests: bytes = field(repr=False)
    answers: bytes = field(repr=False)


@frozen
class SessionAnswer:
    """What a Connector signs as it opens a gated session.

    Attributes:
        session_uid: 32 hex digits, the person's.
        request_sha256: Of the session request as the person signed it.
        half: The Connector's half of the exchange.
    """

    cluster: str
    session_uid: str
    connector_id: str
    request_sha256: bytes
    half: bytes


@frozen
class OwnHalf:
    """One end's key, for one session."""

    _key: X25519PrivateKey = field(repr=False)

    @property
    def public(self) -> bytes:
        """What the other end is told."""
        return self._key.public_key().public_bytes_raw()

    def agree(self, other: bytes, request: bytes, answer: bytes) -> FrameKeys:
        """The keys of the session.

        Args:
            other: The other end's half.
            request: Of the person, as signed.
            answer: Of the Connector, as signed.

        Raises:
            Malformed: the other half is no key.
        """
        try:
            shared = self._key.exchange(X25519PublicKey.from_public_bytes(other))
        except ValueError:
            raise Malformed("the other end's half of the session's key is no key") from None
        info = _INFO + sha256(request).digest() + sha256(answer).digest()
        made = HKDF(SHA256(), 2 * _KEY_BYTES, salt=None, info=info).derive(shared)
        return FrameKeys(made[:_KEY_BYTES], made[_KEY_BYTES:])


def new_half() -> OwnHalf:
    """A key of our own, from the operating system's entropy."""
    return OwnHalf(X25519PrivateKey.generate())
