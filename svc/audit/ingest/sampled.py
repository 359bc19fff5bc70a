"""Reads single allowed requests out of a batch, whole, so that they can be decided again (R25).

Pure.  Which ones is the caller's choice; the Proxy that wrote the batch must not be able to guess.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from attrs import evolve, frozen

from svc.audit.log.entries import RequestSession, request_of
from svc.model.audit.batch import RequestBatch
from svc.model.canonical import decode
from svc.model.policy.access import AccessRequest, request_from_form
from svc.model.policy.requested import APPROVED_REQUEST
from svc.model.session.session import Session

Pick = Callable[[], bool]
"""Whether the next allowed request is to be decided again."""


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


def sampled_allows(
    batch: RequestBatch, session_row: Callable[[str], Session | None], pick: Pick
) -> tuple[SampledAllow, ...]:
    """Some of the allowed requests of a batch that was checked, in their order.

    All of those are among them that say that they stood on an approval: its uses are counted.
    """
    found = []
    for index, entry in enumerate(batch.entries):
        if entry["decision"] != "allow":
            continue
        is_picked = pick()
        if is_picked or APPROVED_REQUEST in entry["context"]:
            one = _sampled(batch, index, entry, session_row)
            found.append(one if is_picked else evolve(one, is_picked=False))
    return tuple(found)


def _sampled(
    batch: RequestBatch,
    index: int,
    entry: Mapping[str, Any],
    session_row: Callable[[str], Session | None],
) -> SampledAllow:
    header = batch.header(index)
    session = session_row(header.session_uid)
    assert session is not None  # or the batch had not been good
    known = RequestSession(session.person_id, session.resource_id, session.kind)
    told = {one.path: decode(one.value.encode()) for one in batch.values(index)}
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
    )


def _told(value: Any, path: str, told: Mapping[str, Any]) -> Any:
    """*value* with what is personal in the place of its hash."""
    if path in told:
        return told[path]
    if isinstance(value, Mapping):
        return {name: _told(one, f"{path}.{name}", told) for name, one in value.items()}
    return value
