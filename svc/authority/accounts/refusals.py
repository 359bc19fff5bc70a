"""How people are refused: always in the same words, so that nobody learns what was wrong."""

from __future__ import annotations

from svc.errors import Fault, SvcError


class LocalSignInRefused(SvcError):
    """The one answer to a sign-in that failed.

    Attributes:
        why: The true reason, for the operator's record alone.
    """

    fault = Fault.DENIED
    reason = "sign_in_failed"
    words = (
        "name, password or second factor is not right, or there were too many tries: after "
        "several in a row wait for up to a quarter of an hour"
    )

    def __init__(self, why: str) -> None:
        super().__init__(f"{self.words}; your operator can see the reason")
        self.why = why


class PasskeyRefused(LocalSignInRefused):
    """The same of a passkey."""

    words = "this passkey signs nobody in"


class EnrollmentRefused(SvcError):
    """The one answer to an enrollment code that is not good."""

    fault = Fault.DENIED
    reason = "enrollment_failed"

    def __init__(self, why: str) -> None:
        super().__init__(
            "this name has no such one-time code, or it was used or has expired; ask your "
            "operator for a new one"
        )
        self.why = why
