"""What people are told of requests for access that they cannot have or change."""

from __future__ import annotations

from svc.errors import Denied, Fault, SvcError

UNKNOWN_TEXT = "no such request, or it is not one that you may see; list them: svc requests list"


def unknown_request() -> SvcError:
    """There is none, or the caller may not see it: which of the two is not told (rule R16)."""
    return SvcError(UNKNOWN_TEXT, reason="unknown_request", fault=Fault.NOT_FOUND)


def request_decided(standing: str) -> SvcError:
    """It waits for no decision any more."""
    return SvcError(
        f"the request is not open any more: {standing}",
        reason="request_decided",
        fault=Fault.PRECONDITION,
    )


def call_used() -> Denied:
    """The call was made before: a Proxy brings it again, or its answer was lost."""
    return Denied("the request was already used", reason="request_replayed")
