"""When a signed head is due, and when it is overdue."""

from __future__ import annotations

from math import inf

from attrs import define, field

OVERDUE_SECONDS = 5.0
"""A head may come so much later than it is due; then nothing is granted until it is there."""


@define
class Deadlines:
    """When a head is due over the records that none covers, and when it is overdue.

    Attributes:
        overdue_at: From when on a head is overdue; infinite where none is due.
    """

    overdue_at: float = field(default=inf, init=False)
    _next: float = field(default=inf, init=False)
    _begun: float = field(default=inf, init=False)

    def at(self, due: float) -> None:
        """A record came that wants a head by then."""
        self._set(min(due, self._next), self._begun)

    def begun(self) -> None:
        """A head over all these records is begun; what comes from now on wants another."""
        self._set(inf, min(self._next, self._begun))

    def done(self) -> None:
        """It is kept, or was not needed."""
        self._set(self._next, inf)

    def put_off(self, now: float) -> None:
        """Somebody else is to sign over what was begun; that it is ours again may be found."""
        if self._begun < inf:
            self._set(self._next, now)

    def _set(self, following: float, begun: float) -> None:
        self._next, self._begun = following, begun
        self.overdue_at = min(following, begun) + OVERDUE_SECONDS
