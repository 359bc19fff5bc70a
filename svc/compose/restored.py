"""The note that a restore leaves for the next start, outside the store."""

from __future__ import annotations

import json
from pathlib import Path

from attrs import asdict, define, frozen

from svc.audit.anchor import replace
from svc.authority.records import Recorder, operator
from svc.errors import ConfigError
from svc.interfaces.store import ITransaction
from svc.model.canonical import Json
from svc.model.events import STORE_RESTORED

NOTE = "restored.json"
"""In the anchor directory."""


@frozen
class Restored:
    """What was put back, by whom, and over what.

    Attributes:
        uid: Who ran the restore.
        head_hash: Of the newest head in the backup, in hex; empty: there was none.
        known_hash: Of the greatest head known then, where that is beyond the backup's.
        reason: What was stated for it.
    """

    uid: int
    head_hash: str
    head_size: int
    known_hash: str = ""
    known_size: int = 0
    reason: str = ""


@define
class RestoredFile:
    """The file in an Authority's anchor directory."""

    path: Path

    def read(self) -> Restored | None:
        """What was restored; None where nothing was.

        Raises:
            ConfigError: the file is not of its form.
        """
        try:
            return Restored(**json.loads(self.path.read_bytes()))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError):
            raise ConfigError(str(self.path), "cannot be read; remove it") from None

    def write(self, restored: Restored) -> None:
        """Let the next start tell it."""
        self.path.parent.mkdir(mode=0o700, exist_ok=True)
        replace(self.path, json.dumps(asdict(restored)).encode() + b"\n")

    def done(self) -> None:
        """It is on record."""
        self.path.unlink(missing_ok=True)


def record(tx: ITransaction, recorder: Recorder, restored: Restored) -> None:
    """Write down that an older store was put back, and both heads (rule R10)."""
    details: dict[str, Json] = {
        "head_size": restored.head_size, "head_hash": restored.head_hash,
    }  # fmt: skip
    if restored.known_hash:
        details |= {"count": restored.known_size, "previous_digest": restored.known_hash}
    if restored.reason:
        details["note"] = restored.reason
    recorder.append(tx, STORE_RESTORED, operator(restored.uid), details=details)
