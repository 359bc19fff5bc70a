"""The refusal of a row that no signed record covers."""

from __future__ import annotations

from svc.errors import Denied


class StateUnsigned(Denied):
    """A stored row that no signed record covers: ``state.unsigned``."""

    reason = "state_unsigned"


def refuse_unsigned(subject: str) -> StateUnsigned:
    """The refusal of one row."""
    return StateUnsigned(
        f"{subject}: the store differs from the signed record; it is not used until that is "
        "corrected (see `svc authority status`)"
    )
