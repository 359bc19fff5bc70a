"""The key of a cluster that recordings are sealed to: ``keys/recording.key``, 32 bytes in hex."""

from __future__ import annotations

from pathlib import Path

from attrs import field, frozen

from svc.model.ids import Entropy
from svc.model.session.grant import RECORDING_KEY_BYTES
from svc.pki import files
from svc.pki.keyring import RECORDING_FILE, new_recording_key
from svc.recording.sealing import public_key


@frozen
class RecordingKey:
    """Both halves."""

    private: bytes = field(repr=False)
    public: bytes


def load_recording_key(directory: Path, entropy: Entropy) -> RecordingKey:
    """The key of a key directory; blocks for the disk.

    Several Authorities have the same one, as they have the other keys.  A directory of a cluster
    that was made before there were recordings gets its key here.

    Raises:
        ConfigError: the file cannot be trusted.
    """
    path = directory / RECORDING_FILE
    key = files.hex_key(path, lambda: new_recording_key(entropy), RECORDING_KEY_BYTES)
    return RecordingKey(key, public_key(key))
