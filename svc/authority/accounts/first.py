"""The one-time code of the first administrator: in a private file on Authority's host alone.

Whoever can read the file owns the cluster anyway.  It is good for an hour, and
only while nobody administers with an account; it is in no log and no store.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from hmac import compare_digest
from pathlib import Path

from attrs import define, field, frozen

from svc.authority.accounts.codes import code_sha256, enrollment_code
from svc.errors import ConfigError
from svc.model.ids import Entropy
from svc.pki.files import read_private
from svc.runtime import durable
from svc.runtime.threads import InThread

CODE_SECS = 3600.0


@frozen
class FirstCode:
    """A code, and until when it is good."""

    text: str = field(repr=False)
    expires_at: float


@define
class FirstAdministratorCode:
    """Makes, reads and removes the file.

    Attributes:
        path: Of the file.
        in_thread: Where the disk is waited for.
    """

    path: Path
    now: Callable[[], float]
    entropy: Entropy = field(repr=False)
    in_thread: InThread

    async def make(self) -> FirstCode:
        """Make a code, in the place of one that is there."""
        return await self.in_thread(self._make)

    async def make_once(self) -> FirstCode | None:
        """Make a code, unless a good one is there."""
        return None if await self.in_thread(self._good) else await self.make()

    async def matches(self, text: str) -> bool:
        """Whether it is the code, and still good."""
        found = await self.in_thread(self._good)
        if found is None:
            return False
        return compare_digest(code_sha256(found.text), code_sha256(text))

    async def remove(self) -> None:
        """Remove the file: the code was used."""
        await self.in_thread(lambda: self.path.unlink(missing_ok=True))

    def _make(self) -> FirstCode:
        made = FirstCode(enrollment_code(self.entropy), self.now() + CODE_SECS)
        durable.replace(self.path, f"{made.text}\n{int(made.expires_at)}\n".encode("ascii"))
        return made

    def _good(self) -> FirstCode | None:
        try:
            text, until = read_private(self.path, os.geteuid()).decode("ascii").split()
            found = FirstCode(text, float(until))
        except (ConfigError, ValueError):
            return None
        return found if self.now() < found.expires_at else None
