r"""``receiver.key``: the credential by which one Authority receives distribution roots.

Each Authority makes its own, and it is of use to nobody else: it is bound to its *owner*, the
name that the Authority has among the others.  The file is a PEM private key (Ed25519) below three
lines that say whose it is and since when, signed by the key itself, so that neither can be
changed without the other.  A key from it signs acknowledgements, another one, derived, opens what
was sealed to the owner: one key, one purpose (rule R14).
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from pathlib import Path

from attrs import field, frozen
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from svc.errors import ConfigError, SvcError
from svc.model.audit.record import rfc3339
from svc.model.canonical import encode
from svc.model.signing import BadSignature, Purpose, sign, verify
from svc.model.sodium import NotOpened, open_sealed, public_half
from svc.pki import files
from svc.runtime import durable

RECEIVER_FILE = "receiver.key"
"""In an Authority's state directory."""

MOVE_AWAY = "move it away, and the Authority makes one of its own at its next start"

_HEAD = re.compile(
    rb"Owner: ([^\n]{1,253})\nCreated: ([^\n]{1,40})\nSignature: ([A-Za-z0-9+/=]{1,128})\n"
)
_KEY_BYTES = 32
_SEALING = b"svc-receiver-sealing-v1\0"


class ReceiverOfAnother(ConfigError):
    """A receiver credential lies where another owner's belongs."""

    reason = "receiver_of_another_owner"


@frozen
class ReceiverCredential:
    """One Authority's.

    Attributes:
        owner: The Authority's name among those on its store.
        created: When it was made, as RFC 3339.
        key: Signs acknowledgements.
    """

    owner: str
    created: str
    key: ed25519.Ed25519PrivateKey = field(repr=False, eq=False)

    @property
    def receiver_key(self) -> bytes:
        """The public half of what signs, raw."""
        return self.key.public_key().public_bytes_raw()

    @property
    def sealing_key(self) -> bytes:
        """The public half of what opens, raw."""
        return public_half(self._opens())

    def open(self, sealed: bytes) -> bytes:
        """What was sealed to this owner.

        Raises:
            SvcError: it was not, or it was altered.
        """
        try:
            return open_sealed(self._opens(), sealed)
        except NotOpened:
            raise SvcError(
                f"{RECEIVER_FILE}: this share was sealed to another credential than that of "
                f"{self.owner} here",
                reason="share_not_opened",
            ) from None

    def _opens(self) -> bytes:
        return HKDF(SHA256(), _KEY_BYTES, None, _SEALING).derive(self.key.private_bytes_raw())


def registration_text(cluster: str, owner: str, receiver_key: bytes, sealing_key: bytes) -> bytes:
    """What a credential signs to be registered: that its owner has both keys."""
    return encode(
        {
            "cluster": cluster,
            "owner": owner,
            "receiver_key": receiver_key.hex(),
            "sealing_key": sealing_key.hex(),
        }
    )


def load_receiver(
    directory: Path, cluster: str, owner: str, at: float, former: str = ""
) -> ReceiverCredential:
    """The credential of an Authority, made at its first start; blocks for the disk.

    Args:
        directory: Its state directory.
        owner: Its name among the Authorities.
        at: Now, in seconds since the epoch.
        former: Another name that it may have had itself: its node id.  A credential of that name is
            replaced: the Authority was given a name since.

    Raises:
        ReceiverOfAnother: the file there is another owner's, naming both.
        ConfigError: it cannot be trusted.
    """
    path = directory / RECEIVER_FILE
    if os.path.lexists(path):
        found = read_receiver(path, cluster, os.geteuid())
        if found.owner == owner:
            return found
        if found.owner != former:
            raise ReceiverOfAnother(
                str(path),
                f"is the receiver credential of {found.owner}, and this Authority is {owner}; it "
                f"must never be copied from one Authority to another: {MOVE_AWAY}",
            )
    made = ReceiverCredential(owner, rfc3339(at), ed25519.Ed25519PrivateKey.generate())
    durable.replace(path, receiver_pem(made, cluster))
    return made


def receiver_pem(credential: ReceiverCredential, cluster: str) -> bytes:
    """The whole file."""
    signature = sign(credential.key, Purpose.RECEIVER, _bound(credential, cluster))
    lines = (
        f"Owner: {credential.owner}",
        f"Created: {credential.created}",
        f"Signature: {base64.b64encode(signature).decode('ascii')}",
    )
    return "".join(f"{line}\n" for line in lines).encode() + files.key_pem(credential.key)


def read_receiver(path: Path, cluster: str, uid: int) -> ReceiverCredential:
    """The credential in a file that only *uid* can read.

    Raises:
        ConfigError: naming the file; never with any of its content.
    """
    return parse_receiver(files.read_private(path, uid), cluster, str(path))


def parse_receiver(data: bytes, cluster: str, path: str) -> ReceiverCredential:
    """The credential of a file's bytes.

    Raises:
        ConfigError: it is none, or its owner or time is not what the key signed.
    """
    head = _HEAD.match(data)
    try:
        if head is None:
            raise ValueError
        key = load_pem_private_key(data[head.end() :], None)
        signature = base64.b64decode(head[3], validate=True)
        owner, created = head[1].decode("utf-8"), head[2].decode("ascii")
    except (ValueError, TypeError, binascii.Error, UnsupportedAlgorithm):
        raise ConfigError(path, f"is not a receiver credential; {MOVE_AWAY}") from None
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise ConfigError(path, f"does not hold an Ed25519 key; {MOVE_AWAY}")
    found = ReceiverCredential(owner, created, key)
    try:
        verify(key.public_key(), Purpose.RECEIVER, _bound(found, cluster), signature)
    except BadSignature:
        raise ConfigError(
            path,
            "its owner, its time or its key was changed, or it belongs to another cluster; "
            f"{MOVE_AWAY}",
        ) from None
    return found


def _bound(credential: ReceiverCredential, cluster: str) -> bytes:
    return encode({"cluster": cluster, "owner": credential.owner, "created": credential.created})
