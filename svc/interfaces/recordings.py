"""The seams of recordings: what a kind records with, and where Authority keeps them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

from attrs import frozen
from zope.interface import Attribute, Interface, implementer

from svc.errors import Unavailable
from svc.model.recording import Recording

Failed = Callable[[str], object]
"""Told, in words for the person, once: nothing more is recorded."""


class ILiveRecording(Interface):
    """One recording that is being made."""

    began_at: float = Attribute("Unix seconds.")
    is_behind: bool = Attribute("Whether so much waits for the disk that no more should come now.")

    def write(data: bytes) -> None:
        """Record this; it is on the disk a second later, or whoever records is told that not."""

    def once_ahead(go_on: Callable[[], object]) -> None:
        """Call this when it is behind no more, or has ended."""

    def end(*, unrecorded: int = 0) -> None:
        """It is complete.

        Args:
            unrecorded: Bytes that were left out of it on purpose.
        """


class IRecorder(Interface):
    """What records one session."""

    of_command: int = Attribute(
        "Bytes that are recorded of what one command without a terminal prints."
    )

    def check() -> Awaitable[None]:
        """Return where a recording could begin now.

        Raises:
            SvcError: ``recording_unavailable``: it could not.
        """

    def begin(failed: Failed) -> Awaitable[ILiveRecording]:
        """Begin one more recording; its file is on the disk when this returns.

        Raises:
            SvcError: as of :meth:`check`.
        """


@implementer(IRecorder)
@frozen
class NoRecorder:
    """Where nothing can be recorded."""

    of_command: int = 0

    async def check(self) -> None:
        """See IRecorder."""
        raise Unavailable("nothing is recorded here", reason="recording_unavailable")

    async def begin(self, failed: Failed) -> ILiveRecording:
        """See IRecorder."""
        await self.check()
        raise AssertionError


NO_RECORDER = NoRecorder()


class IRecordingStore(Interface):
    """Where Authority keeps recordings.

    Every method blocks; they are called from a thread, of one recording in order.  A recording is
    known by its id.
    """

    def facts(id: str) -> Recording | None:
        """What is known of it; None: nothing."""

    def set_facts(recording: Recording) -> None:
        """Keep this of it; on the disk when it returns."""

    def all() -> Iterator[Recording]:
        """What is known of each."""

    def held(id: str) -> int:
        """Bytes of its file."""

    def append(id: str, offset: int, data: bytes) -> int:
        """Add to its file, whose end is at *offset*; on the disk when it returns.

        Returns:
            Bytes of its file; where *offset* is another place than its end nothing was added.
        """

    def read(id: str, offset: int, size: int) -> bytes:
        """At most *size* bytes of its file."""

    def total() -> int:
        """Bytes of all files."""

    def remove(id: str) -> None:
        """Remove it, if it is there."""
