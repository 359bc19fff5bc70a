"""A refusal in the API server's own form, which kubectl and client libraries read."""

from __future__ import annotations

from collections.abc import Sequence


def status(code: int, reason: str, text: str, policies: Sequence[str] = ()) -> dict[str, object]:
    """A ``Status`` of version v1 that says "failure", with the policies behind it as causes."""
    causes = [{"reason": "PolicyDenied", "message": policy} for policy in policies]
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": text,
        "reason": reason,
        "details": {"causes": causes} if causes else {},
        "code": code,
    }
