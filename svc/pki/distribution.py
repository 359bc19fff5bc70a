r"""Distribution roots on an Authority's disk, and key sets sealed under them.

``distribution/<epoch>.root`` holds the secret of a root, 32 bytes in hex.  A key set is every file
of ``keys/`` but the root CA's private key, which belongs to nobody that runs (rule R14).  It is
sealed with AES-256-GCM under a key derived from the root's secret and a random salt, and bound to
cluster, epoch and revision: sealed under one root it opens under no other.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from attrs import define
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from svc.errors import ConfigError, SvcError
from svc.model.canonical import encode
from svc.model.distribution import ROOT_BYTES
from svc.model.ids import Entropy
from svc.pki import files
from svc.pki.credentials import CREDENTIALS_FILE
from svc.runtime import durable

DIRECTORY = "distribution"
"""Of roots, in an Authority's state directory."""

INCOMING = "keys.incoming"
"""A key set that was opened and checked, on its way to ``keys/``."""

MAX_SEALED = 256 * 1024
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,40}\.(?:pem|key)\Z")
_KEPT_BACK = re.compile(r"root-.*|root\.key\Z")
"""The root CA's private key, and copies of it that an operator keeps beside it."""

_SALT_BYTES = 32
_FORM = b"\x01"
_INFO = b"svc-sealed-key-set-v1\0"
_NONCE = bytes(12)


class KeySetRefused(SvcError):
    """A distributed key set that does not open, or that no Authority could start with."""

    reason = "key_set_refused"


@define
class RootFiles:
    """The roots that this Authority has; every call blocks for the disk."""

    directory: Path

    def keep(self, epoch: int, secret: bytes) -> None:
        """Keep a root durably.  Raises OSError, ConfigError."""
        if not self.directory.exists():
            files.make_private_directory(self.directory)
            durable.sync_directory(self.directory.parent)
        files.check_directory(self.directory, os.geteuid())
        durable.replace(self._path(epoch), secret.hex().encode("ascii") + b"\n")

    def secret(self, epoch: int) -> bytes | None:
        """The secret of a root; None: this Authority was not given it.  Raises ConfigError."""
        path = self._path(epoch)
        if not os.path.lexists(path):
            return None
        return files.read_hex_key(path, ROOT_BYTES)

    def _path(self, epoch: int) -> Path:
        return self.directory / f"{epoch}.root"


def key_files(directory: Path) -> dict[str, bytes]:
    """The files of a key directory that are distributed; blocks for the disk.

    Raises:
        ConfigError: one cannot be trusted.
    """
    uid = os.geteuid()
    files.check_directory(directory, uid)
    names = (path.name for path in sorted(directory.iterdir()))
    return {
        name: files.read_private(directory / name, uid)
        for name in names
        if _NAME.match(name) and not _KEPT_BACK.match(name)
    }


def seal_key_set(
    secret: bytes, place: Mapping[str, str], contents: Mapping[str, bytes], entropy: Entropy
) -> bytes:
    """The files of a key set, for whoever has the root's secret.

    Args:
        place: What it is bound to: cluster, epoch, revision.
    """
    form = {name: base64.b64encode(data).decode("ascii") for name, data in contents.items()}
    salt = entropy(_SALT_BYTES)
    text = json.dumps(form, sort_keys=True).encode("ascii")
    return _FORM + salt + _cipher(secret, salt).encrypt(_NONCE, text, encode(dict(place)))


def open_key_set(secret: bytes, place: Mapping[str, str], sealed: bytes) -> dict[str, bytes]:
    """What was sealed for *place*.

    Raises:
        KeySetRefused: it was not, or under another root; or it is no key set.
    """
    form, salt, text = sealed[:1], sealed[1 : 1 + _SALT_BYTES], sealed[1 + _SALT_BYTES :]
    try:
        if form != _FORM or len(sealed) > MAX_SEALED:
            raise InvalidTag
        opened = _cipher(secret, salt).decrypt(_NONCE, text, encode(dict(place)))
        found = {
            name: base64.b64decode(data, validate=True) for name, data in json.loads(opened).items()
        }
    except (InvalidTag, ValueError, TypeError, AttributeError, binascii.Error):
        raise KeySetRefused("the distributed key set does not open under this root") from None
    for name in found:
        if not _NAME.match(name) or _KEPT_BACK.match(name):
            raise KeySetRefused("the distributed key set has a file that is none of it")
    return found


def stage(state: Path, contents: Mapping[str, bytes], check: Callable[[Path], object]) -> None:
    """Write a key set beside ``keys/``, whole and checked, for :func:`install`; blocks.

    Args:
        check: Told the directory; raises SvcError where no Authority could start with it.

    Raises:
        ConfigError: it would take the place of the only copy of a key that is needed.
    """
    _require_same_seal(state / "keys", contents)
    beside, incoming = state / f"{INCOMING}.new", state / INCOMING
    shutil.rmtree(beside, ignore_errors=True)
    files.make_private_directory(beside)
    for name, data in contents.items():
        durable.write_new(beside / name, data)
    durable.sync_directory(beside)
    try:
        check(beside)
    except SvcError:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    shutil.rmtree(incoming, ignore_errors=True)
    durable.move(beside, incoming)


def install(state: Path, keep: Callable[[Path], object]) -> bool:
    """Bring a staged key set into ``keys/``; whether there was one.  Blocks for the disk.

    May be run again after it was cut: a start does so before it reads the keys.

    Args:
        keep: Told ``keys/``; keeps what is needed still once its file is replaced.

    Raises:
        ConfigError: what lies there cannot be trusted, or is the only copy of a key.
    """
    incoming = state / INCOMING
    if not os.path.lexists(incoming):
        return False
    contents = key_files(incoming)
    _require_same_seal(state / "keys", contents)
    keep(state / "keys")
    # Keys first: what is found by its certificate is whole.
    for name, data in sorted(contents.items()):
        durable.replace(state / "keys" / name, data)
    shutil.rmtree(incoming)
    return True


def _require_same_seal(keys: Path, contents: Mapping[str, bytes]) -> None:
    """Refuse another key of what is sealed in the store: each Authority may have made its own."""
    path, distributed = keys / CREDENTIALS_FILE, contents.get(CREDENTIALS_FILE)
    if distributed is None or not os.path.lexists(path):
        return
    if files.read_private(path, os.geteuid()) != distributed:
        raise ConfigError(
            str(path),
            "is not the distributed one, and may be the only copy of what opens credentials in "
            "the store; no distributed key is taken until it is the same: keep this file "
            "elsewhere, then copy that of the leader here",
        )


def require_root(directory: Path, root_pem: bytes) -> None:
    """Refuse a key set of another cluster root.  Raises ConfigError."""
    if files.read_private(directory / "root.pem", os.geteuid()) != root_pem:
        raise ConfigError(
            str(directory / "root.pem"), "the distributed keys belong to another cluster root"
        )


def _cipher(secret: bytes, salt: bytes) -> AESGCM:
    return AESGCM(HKDF(SHA256(), 32, salt, _INFO).derive(secret))
