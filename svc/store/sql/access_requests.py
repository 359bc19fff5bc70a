"""Requests for access, and what was decided about them."""

from __future__ import annotations

import json
from typing import Any

from attrs import frozen
from zope.interface import implementer

from svc.errors import AlreadyExists
from svc.interfaces.access_requests import IAccessRequests
from svc.model.canonical import encode
from svc.model.policy.requested import KeptApproval, RequestedAccess, RequestState
from svc.store.sql.columns import RowColumns, RowInsert
from svc.store.sql.statements import Statements


def _pairs(text: str) -> dict[str, str]:
    """Names and values; whatever else somebody wrote there is kept as one that no kind has."""
    try:
        found: Any = json.loads(text)
    except ValueError:
        found = None
    if isinstance(found, dict) and all(isinstance(each, str) for each in found.values()):
        return found
    return {"": text}


def _state(word: str) -> RequestState:
    """Whatever else somebody wrote there opens nothing."""
    try:
        return RequestState(word)
    except ValueError:
        return RequestState.DENIED


_REQUESTS = RowColumns(
    RequestedAccess,
    "access_requests",
    "id, person_id, resource_id, resource_identity, kind, action, parameters, reason, salt, "
    "asked_secs, uses, used, asked_at, ends_at, state, text_sha256, sealed_text",
    parameters=_pairs,
    salt=bytes,
    state=_state,
    sealed_text=bytes,
)
_NAMES = [name for name in _REQUESTS.listed.split(", ") if name != "parameters"]
_PUT_REQUEST = RowInsert(
    "access_requests",
    ", ".join(_NAMES),
    also="parameters",
    rest="ON CONFLICT (id) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in (*_NAMES[1:], "parameters")),
)
_DECISIONS = RowColumns(
    KeptApproval,
    "access_approvals",
    "request_id, approver, certificate_sha256, payload, signature, certificate, decided_at, "
    "ends_at",
    certificate_sha256=bytes,
    payload=bytes,
    signature=bytes,
    certificate=bytes,
)
_ADD_DECISION = RowInsert("access_approvals", _DECISIONS.listed)


@implementer(IAccessRequests)
@frozen
class AccessRequests:
    """See :class:`IAccessRequests`."""

    _db: Statements

    def put(self, request: RequestedAccess) -> None:
        _PUT_REQUEST(self._db, request, parameters=encode(dict(request.parameters)).decode())

    def get(self, request_id: str) -> RequestedAccess | None:
        return _REQUESTS.one(self._db, "WHERE id = ?", request_id)

    def unexpired(self, at: float) -> tuple[RequestedAccess, ...]:
        return _REQUESTS.all(self._db, "WHERE ends_at > ? ORDER BY id", at)

    def of(self, person_id: str, at: float) -> tuple[RequestedAccess, ...]:
        where = "WHERE person_id = ? AND ends_at > ? ORDER BY asked_at, id"
        return _REQUESTS.all(self._db, where, person_id, at)

    def decide(self, approval: KeptApproval) -> None:
        if not _ADD_DECISION(self._db, approval):
            raise AlreadyExists("store: this request was decided already")

    def decision(self, request_id: str) -> KeptApproval | None:
        return _DECISIONS.one(self._db, "WHERE request_id = ?", request_id)

    def decisions(self, at: float) -> tuple[KeptApproval, ...]:
        return _DECISIONS.all(self._db, "WHERE ends_at > ? ORDER BY request_id", at)

    def forget(self, until: float, texts_until: float) -> None:
        empty = b""
        self._db.change(
            "UPDATE access_requests SET sealed_text = ? WHERE ends_at < ? AND sealed_text <> ?",
            empty,
            texts_until,
            empty,
        )
        self._db.change(
            "DELETE FROM access_approvals WHERE request_id IN"
            " (SELECT id FROM access_requests WHERE ends_at < ?)",
            until,
        )
        self._db.change("DELETE FROM access_requests WHERE ends_at < ?", until)
