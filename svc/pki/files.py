"""Reads private files of keys and certificates, if only their owner can.

Every refusal is a ConfigError that names the path.  Calls block for the disk;
they happen at start and at renewals.  Writing is :mod:`svc.runtime.durable`;
only a key that an older cluster lacks is made here.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from shlex import quote

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from svc.errors import ConfigError
from svc.model.signing import PrivateKey
from svc.pki.profile import OF_CANDIDATE, UNREADABLE, is_of_candidate
from svc.runtime import durable

MAX_FILE_BYTES = 64 * 1024


def make_private_directory(path: Path) -> None:
    """Make a directory of mode 0700; its parent must be there."""
    path.mkdir(mode=0o700)
    path.chmod(0o700)


def check_directory(path: Path, uid: int) -> None:
    """Refuse a directory that another user owns or can look into.

    Raises:
        ConfigError: naming it.
    """
    try:
        found = path.lstat()
    except OSError as error:
        raise ConfigError(str(path), _why(error)) from None
    if not stat.S_ISDIR(found.st_mode):
        raise ConfigError(str(path), "is not a directory")
    _check(path, found, uid)


def read_private(path: Path, uid: int) -> bytes:
    """The bytes of a file that only *uid* can read.

    Raises:
        ConfigError: missing, a symbolic link, of another owner, open to
            others, or far too long.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise ConfigError(str(path), _why(error)) from None
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_FILE_BYTES:
            raise ConfigError(str(path), "is not a regular file, or is larger than 64 KiB")
        _check(path, found, uid)
        return file.read()


def key_pem(key: PrivateKey) -> bytes:
    """A private key as its file holds it: PKCS #8, unencrypted; the file's mode is its guard."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def certificates_pem(*certificates: x509.Certificate) -> bytes:
    """Certificates as their file holds them."""
    return b"".join(each.public_bytes(Encoding.PEM) for each in certificates)


def load_key(path: Path, uid: int) -> PrivateKey:
    """The key in a private file.

    Raises:
        ConfigError: naming the file; never with any of its content.
    """
    try:
        key = load_pem_private_key(read_private(path, uid), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ConfigError(str(path), "holds no private key that can be read") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey):
        raise ConfigError(str(path), "holds a key that is neither P-256 nor Ed25519")
    return key


def load_certificates(path: Path, uid: int) -> list[x509.Certificate]:
    """The certificates in a file, in its order.

    Raises:
        ConfigError: naming the file; also where an earlier candidate made it.
    """
    try:
        found = x509.load_pem_x509_certificates(read_private(path, uid))
        is_old = any(is_of_candidate(each) for each in found)
    except UNREADABLE:
        raise ConfigError(str(path), "holds no certificate that can be read") from None
    if is_old:
        raise ConfigError(str(path), OF_CANDIDATE)
    return found


def check_pair(path: Path, key: PrivateKey, certificate: x509.Certificate) -> None:
    """Refuse a key that is not its certificate's.

    Raises:
        ConfigError: naming the key's file.
    """
    if key.public_key() != certificate.public_key():
        raise ConfigError(str(path), "does not match the certificate next to it")


def _check(path: Path, found: os.stat_result, uid: int) -> None:
    if found.st_uid != uid:
        raise ConfigError(
            str(path), f"belongs to uid {found.st_uid}, not to uid {uid}, which runs this"
        )
    if found.st_mode & 0o077:
        mode = stat.S_IMODE(found.st_mode)
        what = f"mode {mode:04o} lets other users read it; run chmod go-rwx {quote(str(path))}"
        raise ConfigError(str(path), what)


def _why(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()


def hex_key(path: Path, new: Callable[[], bytes], size: int) -> bytes:
    """The secret key that is one line of hex digits in a file; blocks for the disk.

    Args:
        new: The whole file, for a cluster that was made before there was such a key.
        size: Of the key, in bytes.

    Raises:
        ConfigError: the file cannot be trusted.
    """
    if not path.exists():
        durable.replace(path, new())
    return read_hex_key(path, size)


def read_hex_key(path: Path, size: int) -> bytes:
    """The same, of a file that is there.

    Raises:
        ConfigError: it is missing, or cannot be trusted.
    """
    try:
        key = bytes.fromhex(read_private(path, os.geteuid()).decode("ascii").strip())
    except ValueError:
        key = b""
    if len(key) != size:
        raise ConfigError(str(path), f"does not hold {2 * size} hex digits")
    return key
