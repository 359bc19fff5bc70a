"""At the person's machine: the port, and the answers that are not the target's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen
from zope.interface import implementer

from svc.interfaces.kinds import INamedEndpoint
from svc.kinds.opaque import LabelledPort
from svc.kinds.web.answers import (
    json_answer,
    only_inserted,
    page_answer,
    plain,
    refused_form,
    without_body,
)
from svc.kinds.web.check import RequestCheck
from svc.kinds.web.refusal_page import refusal_page
from svc.kinds.web.websocket import POLICY_VIOLATION, TRY_AGAIN_LATER, closing_frame
from svc.kinds.web.words import (
    BAD_ANSWER,
    BETWEEN_POLICIES,
    CLOSES,
    DECISION,
    DENIED,
    ENDED,
    FORM,
    NO_BODY,
    PAGE,
    POLICIES,
    REASON,
    REFUSED,
    REQUEST,
    TEXT,
    WEBSOCKET,
)
from svc.model.policy.requested import COMMAND_OPTIONS, known_command, why_command
from svc.model.session.edits import SESSION_UID, MakeEdit
from svc.model.session.ending import SessionOver, known_ending

_WORD = re.compile(r"[a-z0-9_]{1,64}\Z")
_DECISION = re.compile(r"[0-9a-f]{32}\Z")


def denied(came: bytes, values: Mapping[str, str]) -> bytes:
    """403, as a page for a person and as JSON for a program."""
    decision, closes = values.get(DECISION, ""), bool(values.get(CLOSES))
    decision = decision if _DECISION.match(decision) else ""
    policies = [one for one in values.get(POLICIES, "").split(BETWEEN_POLICIES) if one]
    options = values.get(COMMAND_OPTIONS, "")
    told: dict[str, Any] = {
        "reason": _word(values.get(REASON, "")) or "denied",
        "message": "The policy does not allow this request.",
        "decision_id": decision,
        "policies": policies,
        "explain": why_command(decision, options) if decision else None,
    }
    command = known_command(values.get(REQUEST, ""))
    if command:
        told["request"] = f"{command}{options}"
    if values.get(FORM) == PAGE:
        return page_answer("403 Forbidden", refusal_page("Not allowed", told), closes=closes)
    form = refused_form(session_uid=values.get(SESSION_UID, ""), **told)
    return _worded(json_answer("403 Forbidden", form, closes=closes), values)


def refused(came: bytes, values: Mapping[str, str]) -> bytes:
    """400, for a request that could be read in two ways."""
    return json_answer("400 Bad Request", _fault(values))


def bad_answer(came: bytes, values: Mapping[str, str]) -> bytes:
    """502, in place of an answer that could be."""
    return json_answer("502 Bad Gateway", _fault(values))


def ended(came: bytes, values: Mapping[str, str]) -> bytes:
    """Why a connection ends before its time: to a WebSocket, or to a request that waits."""
    over = SessionOver(known_ending(values.get(REASON, "")))
    if values.get(FORM) == WEBSOCKET:
        code = TRY_AGAIN_LATER if over.is_transient else POLICY_VIOLATION
        return closing_frame(code, f"{over.text} ({over.reason})")
    text, uid = f"The connection was ended: {over.text}.", values.get(SESSION_UID, "")
    # The session stands for the decision that let it open.
    explain = {"explain": why_command(uid, values.get(COMMAND_OPTIONS, ""))} if uid else {}
    told = refused_form(over.reason, text, uid, **explain)
    return json_answer("503 Service Unavailable" if over.is_transient else "403 Forbidden", told)


def _fault(values: Mapping[str, str]) -> dict[str, object]:
    word, text = _word(values.get(REASON, "")), plain(values.get(TEXT, ""))
    return refused_form(word, text, values.get(SESSION_UID, ""))


def _worded(answer: bytes, values: Mapping[str, str]) -> bytes:
    return without_body(answer) if values.get(FORM) == NO_BODY else answer


def _word(text: str) -> str:
    return text if _WORD.match(text) else ""


@implementer(INamedEndpoint)
@frozen(kw_only=True)
class WebPorts(LabelledPort):
    """The native port, the checks of each connection, and the answers that are worded here."""

    edits: Mapping[str, MakeEdit] = field(
        factory=lambda: {
            DENIED: only_inserted(denied),
            REFUSED: only_inserted(refused),
            BAD_ANSWER: only_inserted(bad_answer),
            ENDED: only_inserted(ended),
        }
    )

    def check(self, names: Mapping[str, str] | None, resource: str) -> RequestCheck:
        """See ICheckedEndpoint."""
        return RequestCheck(names, resource)


LOCAL = WebPorts(default_port=80)
