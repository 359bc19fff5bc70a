"""The keys of a cluster that recordings are sealed to, in ``keys/``: each 32 bytes, in hex.

``recording.key`` is the one in use.  All that ever were lie beside it as ``recording-<word>.key``,
to open what was sealed to them; the word is of the public half.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from attrs import define, field, frozen
from twisted.logger import Logger

from svc.errors import ConfigError, Fault, SvcError
from svc.model.ids import Entropy
from svc.model.session.grant import RECORDING_KEY_BYTES
from svc.pki import files
from svc.pki.keyring import RECORDING_FILE, new_recording_key
from svc.recording.sealing import public_key
from svc.runtime import durable
from svc.runtime.threads import InThread

_log = Logger(namespace="svc_authority")

_WORD = 16
_FORMER = "recording-*.key"


@frozen
class RecordingKey:
    """Both halves."""

    private: bytes = field(repr=False)
    public: bytes

    @property
    def sha256(self) -> str:
        """Of the public half, in hex."""
        return sha256(self.public).hexdigest()


def file_of(public: bytes) -> str:
    """The name of the file that keeps the key of this public half."""
    return _FORMER.replace("*", sha256(public).hexdigest()[:_WORD])


@frozen
class RecordingKeys:
    """Those of one key directory.

    Attributes:
        current: What recordings of new sessions are sealed to.
        former: Others, whose recordings can be opened.
    """

    current: RecordingKey
    former: tuple[RecordingKey, ...] = ()

    def with_current(self, key: RecordingKey) -> RecordingKeys:
        """The same keys, and *key* is the one in use."""
        others = (one for one in (self.current, *self.former) if one.public != key.public)
        return RecordingKeys(key, tuple(others))

    def opening(self, public: bytes) -> bytes:
        """The private key that opens what was sealed to *public*.

        Raises:
            SvcError: ``recording_key``: it is not here.
        """
        for one in (self.current, *self.former):
            if one.public == public:
                return one.private
        raise SvcError(
            "the recording is sealed to a key that this Authority does not have: bring "
            f"{file_of(public)} back to keys/, from another Authority or a backup (there it may be "
            f"{RECORDING_FILE})",
            reason="recording_key",
            fault=Fault.PRECONDITION,
        )


def load_recording_keys(directory: Path, entropy: Entropy) -> RecordingKeys:
    """The keys of a key directory; blocks for the disk.

    Several Authorities have the same ones, as they have the other keys.  A directory of a cluster
    that was made before there were recordings gets its key here.

    Raises:
        ConfigError: a file cannot be trusted, or only former keys are left.
    """
    path = directory / RECORDING_FILE
    if not path.exists() and not any(directory.glob(_FORMER)):
        durable.replace(path, new_recording_key(entropy))
    return read_recording_keys(directory)


def read_recording_keys(directory: Path) -> RecordingKeys:
    """The same, of a directory that has them.

    Raises:
        ConfigError: a file is missing, or cannot be trusted.
    """
    path = directory / RECORDING_FILE
    if not path.exists():
        raise ConfigError(
            str(path), "is missing; put it back from another Authority, or from a backup"
        )
    current = _read(path)
    others = [_read(each) for each in sorted(directory.glob(_FORMER))]
    return RecordingKeys(current, tuple(one for one in others if one.public != current.public))


def rotate_recording_key(directory: Path, entropy: Entropy) -> RecordingKey:
    """Make the key that is in use from now on; all keys of before are kept.  Blocks for the disk.

    Whoever does this at the same time loses no key either: each is kept before it is in use.

    Raises:
        ConfigError: the keys there cannot be trusted.
        OSError: the disk refused; the key in use stays.
    """
    files.check_directory(directory, os.geteuid())
    used = read_recording_keys(directory).current
    made = _both(bytes.fromhex(new_recording_key(entropy).decode("ascii")))
    for one in (used, made):
        durable.replace(directory / file_of(one.public), _written(one))
    durable.replace(directory / RECORDING_FILE, _written(made))
    return made


def keep_key_in_use(directory: Path) -> None:
    """Keep the key in use under its own name, too, before another takes its place; blocks.

    Raises:
        ConfigError: it cannot be trusted.
        OSError: the disk refused.
    """
    path = directory / RECORDING_FILE
    if path.exists():
        used = _read(path)
        kept = directory / file_of(used.public)
        if not kept.exists():
            durable.replace(kept, _written(used))


@define(eq=False)
class RecordingKeyRotation:
    """Takes the keys that lie in the directory now.

    Attributes:
        keys: Those in use.
        read: Reads the directory; blocks, raises SvcError.
        is_paused: Whether rotation is paused: then a newer key opens, and nothing is sealed to it.
    """

    keys: RecordingKeys
    read: Callable[[], RecordingKeys]
    in_thread: InThread
    is_paused: Callable[[], bool]
    _unread: str = field(default="", init=False)

    async def follow(self) -> None:
        """One pass; what cannot be read is logged once, and the keys in use stay."""
        try:
            found = await self.in_thread(self.read)
        except SvcError as refused:
            if self._unread != refused.text:
                _log.error("a key in keys/ was not accepted", key="recording", reason=refused.text)
            self._unread = refused.text
            return
        before = self.keys
        if self.is_paused():
            found = found.with_current(before.current)
        self.keys, self._unread = found, ""
        if before.current.public != found.current.public:
            _log.info("recordings are sealed to a newer key", sha256=found.current.sha256)


def _read(path: Path) -> RecordingKey:
    return _both(files.read_hex_key(path, RECORDING_KEY_BYTES))


def _both(private: bytes) -> RecordingKey:
    return RecordingKey(private, public_key(private))


def _written(key: RecordingKey) -> bytes:
    return key.private.hex().encode("ascii") + b"\n"
