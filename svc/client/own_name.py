"""The name of the person or agent whose identity is on this machine.

A certificate has the id alone (ADR 21).  Authority tells the name with the certificate, and it is
kept beside that, so that ``svc status`` shows the name that people use.
"""

from __future__ import annotations

import json
from pathlib import Path

from attrs import frozen

from svc.runtime import durable

NAME_FILE = "name.json"
_MAX_FILE = 4096
_LONGEST_NAME = 253


@frozen
class OwnName:
    """The name in the directory of an identity; blocks for the disk."""

    directory: Path

    @property
    def path(self) -> Path:
        """Of the file; it goes with the identity when somebody signs out."""
        return self.directory / "identity" / NAME_FILE

    def read(self, principal_id: str) -> str:
        """The name of the one who has this id; empty where it is not known."""
        try:
            with self.path.open("rb") as file:
                found = json.loads(file.read(_MAX_FILE))
            name = found["name"] if found["id"] == principal_id else ""
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            return ""
        return name[:_LONGEST_NAME] if isinstance(name, str) else ""

    def write(self, principal_id: str, name: str) -> None:
        """Keep the name that Authority told with a new certificate."""
        kept = {"id": principal_id, "name": name[:_LONGEST_NAME]}
        durable.replace(self.path, json.dumps(kept).encode() + b"\n")
