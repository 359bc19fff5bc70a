"""A setup plan: ordered steps, each of which says how a file or directory is to be; pure.

It says nothing of how they are now: the same configuration gives the same plan before it is
applied and after.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

from attrs import frozen

from svc.model.canonical import Json, encode

SCHEMA = 1
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}\Z")


def is_plan_digest(text: str) -> bool:
    """Whether *text* has the form of a plan's digest."""
    return _DIGEST.match(text) is not None


@frozen(kw_only=True)
class DirectoryStep:
    """A directory is there.

    Attributes:
        file_owner: ``user:group``, or ``user`` where the group is left as it is.
        mode: Four octal digits.
    """

    path: str
    file_owner: str
    mode: str

    def form(self) -> Mapping[str, Json]:
        """What is digested, and shown."""
        return {
            "step": "directory",
            "path": self.path,
            "file_owner": self.file_owner,
            "mode": self.mode,
        }


@frozen(kw_only=True)
class FileStep:
    """The configuration is the one that was read, and who runs the role can read it."""

    path: str
    sha256: str
    file_owner: str
    mode: str

    def form(self) -> Mapping[str, Json]:
        """What is digested, and shown."""
        return {
            "step": "file",
            "path": self.path,
            "sha256": self.sha256,
            "file_owner": self.file_owner,
            "mode": self.mode,
        }


@frozen(kw_only=True)
class UnitStep:
    """A unit is written and enabled; nothing is started.

    Attributes:
        sha256: Of its text.
    """

    path: str
    name: str
    sha256: str
    mode: str

    def form(self) -> Mapping[str, Json]:
        """What is digested, and shown."""
        return {
            "step": "unit",
            "path": self.path,
            "name": self.name,
            "sha256": self.sha256,
            "mode": self.mode,
        }


Step = DirectoryStep | FileStep | UnitStep


@frozen(kw_only=True)
class SetupPlan:
    """What is to be done, in this order."""

    role: str
    config: str
    steps: tuple[Step, ...]

    def form(self) -> Mapping[str, Json]:
        """What is digested."""
        return {
            "schema": SCHEMA,
            "role": self.role,
            "config": self.config,
            "steps": [step.form() for step in self.steps],
        }

    @property
    def digest(self) -> str:
        """``sha256:`` and the SHA-256 of the plan's canonical JSON."""
        return f"sha256:{hashlib.sha256(encode(self.form())).hexdigest()}"
