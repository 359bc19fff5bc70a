"""When a signed head is due, and when it is overdue."""

from __future__ import annotations

from attrs import define, field

OVERDUE_SECONDS = 5.0
"""A head may come so much later than it is due; then nothing is granted until it is there."""


@define
class Deadlines:
    """When a head is due over the records that none covers, and when it is overdue."""

    _next: float | None = field(default=None, init=False)
    _begun: float | None = field(default=None, init=False)

    @property
    def over(self) -> float | None:
        """From when on a head is overdue; None where none is due."""
        due = [one for one in (self._next, self._begun) if one is not None]
        return min(due) + OVERDUE_SECONDS if due else None

    def is_over(self, now: float) -> bool:
        """Whether a head is overdue."""
        return self.over is not None and now >= self.over

    def at(self, due: float) -> None:
        """A record came that wants a head by then."""
        self._next = due if self._next is None else min(due, self._next)

    def begun(self) -> None:
        """A head over all these records is begun; what comes from now on wants another."""
        due = [one for one in (self._next, self._begun) if one is not None]
        self._next, self._begun = None, min(due, default=None)

    def done(self) -> None:
        """It is kept, or was not needed."""
        self._begun = None

    def put_off(self, now: float) -> None:
        """Somebody else is to sign over what was begun; that it is ours again may be found."""
        if self._begun is not None:
            self._begun = now
