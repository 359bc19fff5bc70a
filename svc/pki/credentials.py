r"""Seals what the store keeps of people's credentials, with a key that is not in the store.

``keys/credentials.key`` holds 32 random bytes in hex.  A sealed value is bound to
its place (cluster, table, row, person, provider; rule R31): moved to another
row, it does not open.  AES-256-GCM; the key of each value is derived from its
own random salt, so no nonce is ever used twice under one key.
"""

from __future__ import annotations

from pathlib import Path

from attrs import field, frozen
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from svc.errors import Denied
from svc.model.canonical import encode
from svc.model.ids import Entropy
from svc.pki import files

CREDENTIALS_FILE = "credentials.key"
_KEY_BYTES = 32
_SALT_BYTES = 32
_FORM = b"\x01"
_INFO = b"svc-sealed-credential-v1\0"
_NONCE = bytes(12)


class SealBroken(Denied):
    """A sealed value that was altered or moved, or that another key sealed."""

    reason = "credential_sealed"


@frozen
class CredentialPlace:
    """Where a sealed value belongs."""

    cluster: str
    table: str
    row: str
    person_id: str
    provider: str

    @property
    def bound(self) -> bytes:
        """Its canonical bytes, the associated data of the seal."""
        return encode(
            {
                "cluster": self.cluster,
                "table": self.table,
                "row": self.row,
                "person": self.person_id,
                "provider": self.provider,
            }
        )


@frozen
class CredentialSeal:
    """Seals and opens values."""

    entropy: Entropy = field(repr=False)
    _key: bytes = field(repr=False)

    def seal(self, value: bytes, place: CredentialPlace) -> bytes:
        """*value*, readable only with the key and only at *place*."""
        salt = self.entropy(_SALT_BYTES)
        return _FORM + salt + self._cipher(salt).encrypt(_NONCE, value, place.bound)

    def open(self, sealed: bytes, place: CredentialPlace) -> bytes:
        """What was sealed at *place*.

        Raises:
            SealBroken: it was not, or not by this key.
        """
        form, salt, text = sealed[:1], sealed[1 : 1 + _SALT_BYTES], sealed[1 + _SALT_BYTES :]
        try:
            if form != _FORM or len(salt) != _SALT_BYTES:
                raise InvalidTag
            return self._cipher(salt).decrypt(_NONCE, text, place.bound)
        except InvalidTag:
            raise SealBroken(
                f"{place.table} {place.row}: the sealed value does not open here; was keys/"
                f"{CREDENTIALS_FILE} of another Authority, or was the row changed?"
            ) from None

    def _cipher(self, salt: bytes) -> AESGCM:
        derived = HKDF(SHA256(), _KEY_BYTES, salt, _INFO).derive(self._key)
        return AESGCM(derived)


def new_credentials_key(entropy: Entropy) -> bytes:
    """What the file of a new key holds."""
    return entropy(_KEY_BYTES).hex().encode("ascii") + b"\n"


def load_credential_seal(directory: Path, entropy: Entropy) -> CredentialSeal:
    """The seal of a key directory; blocks for the disk.

    A directory of a cluster that was made before there were sign-ins gets its key here.

    Raises:
        ConfigError: the file cannot be trusted.
    """
    path = directory / CREDENTIALS_FILE
    key = files.hex_key(path, lambda: new_credentials_key(entropy), _KEY_BYTES)
    return CredentialSeal(entropy, key)
