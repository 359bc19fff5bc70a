"""Sessions that stand on protected rows, as the signed records say that count the uses."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import evolve, frozen

SESSIONS_STAND_ON = "access:"
"""How the subjects of the rows begin: those of approved requests for access."""


@frozen
class StandingSession:
    """A session and what it stands on.

    Attributes:
        proxy_id: The Proxy that it was granted to.
        subjects: Of the rows.
    """

    uid: str
    proxy_id: str
    subjects: frozenset[str]

    def with_more(self, other: StandingSession) -> StandingSession:
        """What it stands on by both."""
        return evolve(self, subjects=self.subjects | other.subjects)


def standing_session(
    uid: object, proxy_id: object, subjects: Iterable[str]
) -> StandingSession | None:
    """The session that a record is about, if it stands on rows that the record changes."""
    named = frozenset(one for one in subjects if one.startswith(SESSIONS_STAND_ON))
    if not uid or not named:
        return None
    return StandingSession(str(uid), str(proxy_id or ""), named)
