"""Encryption in the age format (age-encryption.org/v1), by the library pyrage.

Whoever makes a backup holds public keys only.  Both ways run in constant memory,
and no byte is given out before its 64 KiB were authenticated.  What age does not
say is who wrote a file: that follows from what is inside.  The library is loaded
when it is needed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from io import BufferedReader
from pathlib import Path
from threading import Thread
from typing import Any, BinaryIO

from attrs import define, field, frozen

from svc.errors import BackupBroken, UsageError
from svc.ops.backup.manifest import SealedFile
from svc.runtime.given_file import read_given

MAX_KEYS_BYTES = 1 << 16
_PRIVATE = ("AGE-SECRET-KEY-", "PRIVATE KEY")


@frozen
class Recipient:
    """A public key that a backup is encrypted to."""

    text: str
    key: Any = field(repr=False)


def read_recipients(words: Sequence[str]) -> tuple[Recipient, ...]:
    """The recipients that these words are or, as paths of files, hold: one a line.

    Raises:
        UsageError: one is no public key that age knows, or is a private one.
    """
    found: list[Recipient] = []
    for word in words:
        if word.startswith(("age1", "ssh-")):
            found.append(_recipient(word))
        elif any(mark in word for mark in _PRIVATE):
            raise UsageError("--encrypt-to: this is a private key; give the public key")
        else:
            found += [_recipient(line) for line in _lines(Path(word))]
    if not found:
        raise UsageError("--encrypt-to: the file contains no public key")
    return tuple(found)


def read_identities(path: Path) -> tuple[Any, ...]:
    """The private keys of a file: age identities, a line each, or one OpenSSH key.

    Raises:
        UsageError: there are none, or others may read it.
    """
    from pyrage import IdentityError, ssh, x25519

    data = _read(path, "--identity", private=True)
    try:
        if b"PRIVATE KEY" in data:
            return (ssh.Identity.from_buffer(data),)
        found = [x25519.Identity.from_str(line) for line in _words(data)]
    except (IdentityError, UnicodeDecodeError):
        raise UsageError(
            f"--identity: {path}: is neither an age identity nor an OpenSSH key"
        ) from None
    if not found:
        raise UsageError(f"--identity: {path}: it contains no key")
    return tuple(found)


def seal(chunks: Iterator[bytes], path: Path, recipients: Sequence[Recipient]) -> SealedFile:
    """Encrypt what *chunks* give into a new file, and see it onto the disk.

    Raises:
        OSError: the disk refuses.  What *chunks* raises comes through as it is.
    """
    import pyrage

    source = _Pulled(chunks)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb", buffering=1 << 20) as file:
        digest = _Digesting(file)
        try:
            pyrage.encrypt_io(source, digest, [each.key for each in recipients])
        except Exception:
            # The library tells only the text of what was raised inside.
            if source.failed is not None:
                raise source.failed from None
            raise
        file.flush()
        os.fsync(descriptor)
        return SealedFile(file.tell(), digest.digest.hexdigest())


@contextmanager
def opened(path: Path, identities: Sequence[Any], expected: SealedFile) -> Iterator[BinaryIO]:
    """What a sealed file holds, as a stream; to be read to its end.

    Raises:
        BackupBroken: at the end of the block, or in place of what the block raised: the file
            is missing, damaged, of other bytes than *expected*, or not for these identities.
    """
    read_end, write_end = os.pipe()
    opening = _Opening(path, identities, write_end)
    worker = Thread(target=opening.run, name="svc-backup-opening", daemon=True)
    worker.start()
    stream = BufferedReader(os.fdopen(read_end, "rb", buffering=0), 1 << 17)
    try:
        yield stream
        rest = stream.read(1)
    except BaseException:
        stream.close()
        worker.join()
        opening.tell()
        raise
    stream.close()
    worker.join()
    opening.tell()
    if rest:
        raise BackupBroken(f"{path.name}: it contains more data than the manifest says")
    if opening.seen() != expected:
        raise BackupBroken(f"{path.name}: differs from the manifest (SHA-256)")


@define
class _Opening:
    """Decrypts into a pipe, in a thread of its own: the library pushes, readers pull."""

    _path: Path
    _identities: Sequence[Any]
    _write_end: int
    _digest: Any = field(init=False, factory=sha256)
    _size: int = field(init=False, default=0)
    _failed: Exception | None = field(init=False, default=None)

    def run(self) -> None:
        """Decrypt; what fails is kept."""
        import pyrage

        try:
            with (
                os.fdopen(self._write_end, "wb", buffering=1 << 16) as out,
                self._path.open("rb", buffering=1 << 20) as self._file,
            ):
                pyrage.decrypt_io(self, out, list(self._identities))
                while self.read(1 << 16):
                    pass  # a file that goes on behind its end is another file
        except Exception as failed:
            self._failed = failed

    _file: Any = field(init=False, default=None)

    def read(self, size: int = -1) -> bytes:
        """The next bytes of the file, for the library."""
        data: bytes = self._file.read(size)
        self._digest.update(data)
        self._size += len(data)
        return data

    def seen(self) -> SealedFile:
        """What the file was."""
        return SealedFile(self._size, self._digest.hexdigest())

    def tell(self) -> None:
        """Raise what went wrong with the file, if anything did."""
        failed = self._failed
        if failed is None or isinstance(failed, BrokenPipeError):
            return
        name = self._path.name
        if isinstance(failed, FileNotFoundError):
            raise BackupBroken(f"{name}: is missing") from None
        if isinstance(failed, OSError) and failed.errno is not None:
            raise BackupBroken(f"{name}: cannot be read: {failed.strerror}") from None
        if "matching key" in str(failed).lower():
            raise BackupBroken(
                f"{name}: is not encrypted to this identity", reason="backup_identity"
            ) from None
        raise BackupBroken(f"{name}: is damaged, or is not an age file") from None


@define
class _Pulled:
    """An iterator of chunks as the file that the library reads."""

    _chunks: Iterator[bytes]
    failed: BaseException | None = None
    _left: memoryview = field(init=False, factory=lambda: memoryview(b""))

    def read(self, size: int = -1) -> bytes:
        """At most *size* bytes; none at the end."""
        try:
            while not self._left:
                chunk = next(self._chunks, None)
                if chunk is None:
                    return b""
                self._left = memoryview(chunk)
        except BaseException as failed:
            self.failed = failed
            raise
        given, self._left = self._left[:size], self._left[size:]
        return bytes(given)


@define
class _Digesting:
    """A file that is hashed while it is written."""

    _file: Any
    digest: Any = field(factory=sha256)

    def write(self, data: bytes) -> int:
        """Write."""
        self.digest.update(data)
        return int(self._file.write(data))

    def flush(self) -> None:
        """Flush."""
        self._file.flush()


def _recipient(line: str) -> Recipient:
    from pyrage import RecipientError, ssh, x25519

    if any(mark in line for mark in _PRIVATE):
        raise UsageError("--encrypt-to: the file contains a private key; give the public key")
    try:
        key = (ssh if line.startswith("ssh-") else x25519).Recipient.from_str(line)
    except RecipientError:
        raise UsageError(
            "--encrypt-to: this is neither a public key of age (age1…) or OpenSSH (ssh-ed25519, "
            "ssh-rsa) nor a file of such keys"
        ) from None
    return Recipient(line, key)


def _lines(path: Path) -> list[str]:
    try:
        return _words(_read(path, "--encrypt-to", private=False))
    except UnicodeDecodeError:
        raise UsageError(f"--encrypt-to: {path}: it is not a text file") from None


def _words(data: bytes) -> list[str]:
    lines = (line.strip() for line in data.decode("ascii").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _read(path: Path, option: str, *, private: bool) -> bytes:
    try:
        data = read_given(path, MAX_KEYS_BYTES, private=private)
    except OSError as error:
        raise UsageError(f"{option}: {path}: {error.strerror}") from None
    if len(data) > MAX_KEYS_BYTES:
        raise UsageError(f"{option}: {path}: it is not a file of keys")
    return data
