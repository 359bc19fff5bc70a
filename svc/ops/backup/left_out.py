"""Damaged files of a backup without which an Authority can go on: a restore leaves them out.

There is one: the receiver credential.  Whoever lost it gets another one, so it never keeps a store
and its keys from being restored.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from attrs import frozen

from svc.errors import ConfigError
from svc.ops.backup.manifest import Manifest
from svc.pki.receiver import RECEIVER_FILE, ReceiverCredential, read_receiver


@frozen
class LeftOut:
    """A file that a restore does not put back.

    Attributes:
        path: In the archive.
        message: What is wrong with it.
        hint: What its loss asks for.
    """

    path: str
    message: str
    hint: str


def kept_receiver(top: Path, within: str, cluster: str) -> ReceiverCredential | None:
    """The receiver credential that was unpacked below *top*; none where it is missing or damaged.

    Args:
        within: The path of the Authority's own files in the archive.
    """
    try:
        return read_receiver(top / within / RECEIVER_FILE, cluster, os.geteuid())
    except ConfigError:
        return None


def lost_receiver(manifest: Manifest, within: str) -> Iterable[LeftOut]:
    """What to say where the receiver credential that *manifest* lists cannot be put back."""
    path = f"{within}/{RECEIVER_FILE}"
    if path in {file.path for file in manifest.files}:
        yield LeftOut(
            path,
            f"is damaged: it is not a receiver credential of {manifest.stamp.cluster}",
            "the Authority makes another one at its next start; if its log then says "
            "receiver_replaced, put an undamaged copy back, or withdraw its name (svc authority "
            "keys sync root withdraw), start it again and let it back (readmit)",
        )
