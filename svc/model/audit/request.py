"""A decided request on its way into a batch, and the numbers of a session's requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from attrs import define, field

from svc.model.policy.access import AccessRequest


@define(eq=False)
class SessionNumbers:
    """Numbers the recorded requests of one session: 1 for the first, and none is left out.

    A number is given where a record is on the disk, so what was refused takes none.

    Attributes:
        last: The number of the newest request in a row.
        ahead: And of the newest one that is on the disk, in a row or before it is in one.
    """

    session_uid: str
    last: int = 0
    ahead: int = 0


@define(kw_only=True)
class RequestRecord:
    """One decided request.

    Not frozen, though nothing changes it once it is recorded: setting each field of a frozen one
    takes three times as long, and one is made for each request.

    Attributes:
        time: When it is recorded, in seconds since the epoch.
        reason: Why it was denied; empty for what is allowed.
        form: Kept by whoever seals it, for more requests of the same decision.
        range: First byte and the byte after the last one of the client's stream, where known.
        frames: Digest of the tags of the frames that brought it, where they are tagged.
    """

    numbers: SessionNumbers = field(eq=False)
    time: float = 0.0
    request: AccessRequest
    decision: str
    decision_id: str
    policies: tuple[str, ...] = ()
    policy_version: int
    entities_digest: str
    reason: str = ""
    form: object = field(default=None, init=False, eq=False, repr=False)
    range: tuple[int, int] | None = None
    frames: bytes | None = None


_First = TypeVar("_First", bound=RequestRecord)


@define(eq=False)
class RepeatedRequest(Generic[_First]):
    """One more request that was decided by the decision on another one of its session.

    Attributes:
        first: That one, as it was decided; the rest is this one's own, as there.
    """

    first: _First
    decision_id: str
    time: float = 0.0
    range: tuple[int, int] | None = None
    frames: bytes | None = None


@define
class SealedRequest:
    """A request as it will stand in a batch, but for its place there.

    As a :class:`RequestRecord`, nobody changes it.

    Attributes:
        common: Policy version, digest of the entities and type of the resource, which its
            header says.
        before: The canonical text of its members up to the place in the batch.
        after: And from there on.
        values: What it hides, in order of the paths: of each where its hash stands, its salt and
            the value as canonical JSON, as members of a JSON list (``salted_text``).
        size: Bytes that it takes, a little more than less.
        beside: How many of these its hidden values take, which stand beside the entry.
    """

    numbers: SessionNumbers
    common: tuple[int, str, str]
    decision_id: str
    before: str
    after: str
    values: Sequence[str] = field(repr=False)
    size: int
    beside: int

    def text(self, session: int, session_n: int) -> str:
        """The entry at its place: members are in order of their names."""
        return f'{self.before}"session":{session},"session_n":{session_n},{self.after}'
