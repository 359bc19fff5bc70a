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
from svc.pki.receiver import MOVE_AWAY, RECEIVER_FILE, ReceiverCredential, read_receiver

_NAMELESS = (
    "an earlier svc made this backup, without the name of its Authority, so whose it was cannot be "
    "checked: see that authority.name is that of the Authority whose backup this is; it"
)


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


def unpacked_receiver(top: Path, within: str, cluster: str) -> ReceiverCredential | str:
    """The receiver credential that was unpacked below *top*, or why there is none.

    Args:
        within: The path of the Authority's own files in the archive.
    """
    try:
        return read_receiver(top / within / RECEIVER_FILE, cluster, os.geteuid())
    except ConfigError as damaged:
        return damaged.what.removesuffix(f"; {MOVE_AWAY}")


def lost_receiver(manifest: Manifest, within: str, why: str) -> Iterable[LeftOut]:
    """What to say where the receiver credential that *manifest* lists cannot be put back.

    Args:
        why: As :func:`unpacked_receiver` says it; empty: an earlier run left it out.
    """
    path = f"{within}/{RECEIVER_FILE}"
    if path in {file.path for file in manifest.files}:
        yield LeftOut(
            path,
            f"is damaged: {why or f'it is not a receiver credential of {manifest.stamp.cluster}'}",
            f"{_NAMELESS if not manifest.stamp.authority_name else 'the Authority'} makes another "
            "one at its next start, and if its log then "
            "says receiver_replaced, put an undamaged copy back, or withdraw its name (svc "
            "authority keys sync root withdraw NAME), start it again and let it back (svc "
            "authority keys sync root readmit NAME --key DIGEST)",
        )
