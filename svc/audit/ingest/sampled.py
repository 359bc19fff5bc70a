"""Reads single allowed requests out of a batch, whole, so that they can be decided again (R25).

Pure.  Which ones is the caller's choice; the Proxy that wrote the batch must not be able to guess.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from attrs import frozen

from svc.audit.log.entries import RequestSession, request_of
from svc.model.audit.batch import RequestHeader
from svc.model.canonical import decode
from svc.model.policy.access import AccessRequest, request_from_form
from svc.model.session.session import Session

Pick = Callable[[], bool]
"""Whether the next allowed request is to be decided again."""

SessionRow = Callable[[str], Session | None]
"""``session(uid)``: a session that Authority granted, as the record of its opening says."""


@frozen(kw_only=True)
class SampledAllow:
    """A request that a Proxy says the policy allowed.

    Attributes:
        proxy_id: Of the Proxy that decided it, by the record of the session's opening.
        at: When it was decided, in Unix seconds: as the Proxy says, but not before the session.
        entities_digest: Of what it was decided over, as the Proxy says.
        is_picked: Whether it is to be decided again; of one that is not, only the approval that it
            says it stood on is looked at.
    """

    session_uid: str
    proxy_id: str
    decision_id: str
    at: float
    request: AccessRequest
    policy_version: int
    entities_digest: str
    is_picked: bool = True


def pick_none() -> bool:
    """Where nothing is decided again."""
    return False


def sampled_allow(
    entry: Mapping[str, Any],
    header: RequestHeader,
    session: Session,
    values: Mapping[str, str],
    *,
    is_picked: bool,
) -> SampledAllow:
    """An allowed request of a batch that was checked.

    Args:
        session: As Authority granted it.
        values: The personal values of the entry, by their paths.
    """
    known = RequestSession(session.person_id, session.resource_id, session.kind)
    told = {path: decode(value.encode()) for path, value in values.items()}
    form = request_of(entry, header, known)
    form["context"] = _told(entry["context"], "request.context", told)
    decided = datetime.fromisoformat(str(entry["time"])).timestamp()
    return SampledAllow(
        session_uid=header.session_uid,
        proxy_id=session.proxy_id,
        decision_id=str(entry["decision_id"]),
        at=max(decided, session.started_at),
        request=request_from_form(form),
        policy_version=header.policy_version,
        entities_digest=header.entities_digest,
        is_picked=is_picked,
    )


def _told(value: Any, path: str, told: Mapping[str, Any]) -> Any:
    """*value* with what is personal in the place of its hash."""
    if path in told:
        return told[path]
    if isinstance(value, Mapping):
        return {name: _told(one, f"{path}.{name}", told) for name, one in value.items()}
    return value
