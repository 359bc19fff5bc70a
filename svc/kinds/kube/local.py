"""At the person's machine: the port that kubectl is told of, and answers that are not the target's.

Plain HTTP is meant: the endpoint is open to the person's own programs alone, and kubectl has no
credential to send (the kubeconfig names none).  No browser is served, whatever page it shows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from attrs import define, field, frozen
from zope.interface import implementer

from svc.errors import Denied, SvcError
from svc.interfaces.kinds import ICheckedEndpoint, IListedEndpoint, ILocalCheck
from svc.kinds.kube.kubeconfig import kubeconfig
from svc.kinds.kube.request import PROTOCOLS
from svc.kinds.kube.review import BY_POLICY, BY_WILDCARD, GROUP, VERSION
from svc.kinds.kube.status import status
from svc.kinds.opaque import LabelledPort
from svc.kinds.web.answers import json_answer, only_inserted, plain, without_body
from svc.kinds.web.check import RequestCheck
from svc.kinds.web.head import WEBSOCKET as WEBSOCKET_PROTOCOL
from svc.kinds.web.head import BadHead, HttpRequest
from svc.kinds.web.websocket import (
    NORMAL,
    POLICY_VIOLATION,
    TRY_AGAIN_LATER,
    binary_frame,
    closing_frame,
)
from svc.kinds.web.words import (
    ANSWERED,
    BAD_ANSWER,
    BETWEEN_POLICIES,
    CHANNELS,
    CLOSES,
    DECISION,
    DENIED,
    ENDED,
    EVENTS,
    FORM,
    NO_BODY,
    POLICIES,
    REASON,
    REFUSED,
    REQUEST,
    STREAMS,
    TEXT,
    WEBSOCKET,
)
from svc.model.policy.requested import COMMAND_OPTIONS, known_command, why_command
from svc.model.session.edits import SESSION_UID, MakeEdit
from svc.model.session.ending import SessionOver, known_ending

_DECISION = re.compile(r"[0-9a-f]{32}\Z")
_BROWSERS = frozenset({b"origin", b"cookie"})
_FETCH = b"sec-fetch-"
_ERROR_CHANNEL = b"\x03"
_ERROR_STREAM, _FIN = 1, 0x01
"""Clients of Kubernetes open the stream of errors first."""

_VERSION = re.compile(r"v[0-9][a-z0-9]{0,15}\Z")
_WHY_NOT = {
    BY_POLICY: "the access policy does not allow it",
    BY_WILDCARD: "the access policy decides each request by itself: ask without *",
}


def denied(came: bytes, values: Mapping[str, str]) -> bytes:
    """403, as the API server's own ``Forbidden``."""
    decision = values.get(DECISION, "")
    decision = decision if _DECISION.match(decision) else ""
    policies = [plain(one) for one in values.get(POLICIES, "").split(BETWEEN_POLICIES) if one]
    by = f" (policies {', '.join(policies)})" if policies else ""
    command = known_command(values.get(REQUEST, ""))
    options = values.get(COMMAND_OPTIONS, "")
    ask = f"; to ask for access: {command}{options}" if command else ""
    why = f"; to see why: {why_command(decision, options)}" if decision else ""
    text = f"the access policy does not allow this request{by}{ask}{why}"
    told = status(403, "Forbidden", text, policies)
    answer = json_answer("403 Forbidden", told, closes=bool(values.get(CLOSES)))
    return without_body(answer) if values.get(FORM) == NO_BODY else answer


def refused(came: bytes, values: Mapping[str, str]) -> bytes:
    """400, for a request that could be read in two ways, or that names nothing."""
    text = plain(values.get(TEXT, ""))
    return json_answer("400 Bad Request", status(400, "BadRequest", text))


def bad_answer(came: bytes, values: Mapping[str, str]) -> bytes:
    """502, in place of an answer that could be."""
    text = plain(values.get(TEXT, ""))
    return json_answer("502 Bad Gateway", status(502, "InternalError", text))


def ended(came: bytes, values: Mapping[str, str]) -> bytes:
    """Why a connection ends before its time, in the form that its reader takes just now."""
    over, form = SessionOver(known_ending(values.get(REASON, ""))), values.get(FORM)
    if form == WEBSOCKET:
        code = TRY_AGAIN_LATER if over.is_transient else POLICY_VIOLATION
        return closing_frame(code, f"{over.text} ({over.reason})")
    # The session stands for the decision that let it open.
    uid, options = values.get(SESSION_UID, ""), values.get(COMMAND_OPTIONS, "")
    why = f"; to see why: {why_command(uid, options)}" if uid else ""
    text = f"the connection was ended: {over.text} ({over.reason}){why}"
    number, line = (503, "ServiceUnavailable") if over.is_transient else (403, "Forbidden")
    told = status(number, line, text)
    if form == CHANNELS:
        said = _ERROR_CHANNEL + json.dumps(told).encode("ascii")
        return binary_frame(said) + closing_frame(NORMAL, "")
    if form == STREAMS:
        return _last_data(_ERROR_STREAM, json.dumps(told).encode("ascii"))
    if form == EVENTS:
        event = json.dumps({"type": "ERROR", "object": told}).encode("ascii") + b"\n"
        return b"%x\r\n%s\r\n0\r\n\r\n" % (len(event), event)
    return json_answer("503 Service Unavailable" if over.is_transient else "403 Forbidden", told)


def _last_data(stream: int, data: bytes) -> bytes:
    """A frame of SPDY that ends its stream."""
    return stream.to_bytes(4, "big") + bytes((_FIN,)) + len(data).to_bytes(3, "big") + data


def answered(came: bytes, values: Mapping[str, str]) -> bytes:
    """A review of access that the policy answers with no."""
    version = values.get(VERSION, "")
    why = _WHY_NOT.get(values.get(REASON, ""), _WHY_NOT[BY_POLICY])
    told = {
        "kind": "SelfSubjectAccessReview",
        "apiVersion": f"{GROUP}/{version if _VERSION.match(version) else 'v1'}",
        "metadata": {},
        "spec": {},
        "status": {"allowed": False, "reason": why},
    }
    return json_answer("201 Created", told, closes=bool(values.get(CLOSES)))


def refuse_browsers(head: HttpRequest) -> None:
    """No tool of Kubernetes sends what a browser does.

    But for one: Python's WebSockets name the address itself as their origin.  A browser would say
    what it is besides, and a page cannot keep it from that.

    Raises:
        Denied: a page has made this request.
    """
    names = [name.lower() for name, _ in head.headers.fields]
    own = [b"http://" + head.headers.one(b"host")]
    is_tool = head.protocol == WEBSOCKET_PROTOCOL and head.headers.all(b"origin") == own
    is_tool = is_tool and not any(map(_is_of_browser, head.headers.all(b"user-agent")))
    refused = _BROWSERS - {b"origin"} if is_tool else _BROWSERS
    if any(name in refused or name.startswith(_FETCH) for name in names):
        raise Denied(
            "this address is for kubectl and the like, not for browsers", reason="cross_site"
        )


def _is_of_browser(agent: bytes) -> bool:
    return b"mozilla" in agent.lower()


@implementer(ILocalCheck)
@define
class ToolCheck:
    """The checks of one connection of a tool, which reads refusals as the API server's."""

    requests: RequestCheck

    @property
    def resource(self) -> str:
        """See ILocalCheck."""
        return self.requests.resource

    @property
    def answer(self) -> bytes:
        """See ILocalCheck; it has no list."""
        return self.requests.answer

    def heard(self, data: bytes) -> None:
        """See ILocalCheck."""
        self.requests.heard(data)

    def refused(self, error: SvcError) -> bytes:
        """See ILocalCheck."""
        if isinstance(error, BadHead):
            return refused(b"", {TEXT: error.text})
        policies = [one for one in plain(error.details.get("policies", "")).split(",") if one]
        decision = plain(error.details.get("decision_id", ""))
        options = error.details.get(COMMAND_OPTIONS, "")
        why = f"; to see why: {why_command(decision, options)}" if decision else ""
        command = known_command(error.details.get("request", ""))
        ask = f"; to ask for access: {command}{options}" if command else ""
        text = f"{plain(error.text)}{ask}{why}"
        if error.fault is Denied.fault:
            return json_answer("403 Forbidden", status(403, "Forbidden", text, policies))
        told = status(503, "ServiceUnavailable", text)
        return json_answer("503 Service Unavailable", told)


@implementer(ICheckedEndpoint, IListedEndpoint)
@frozen(kw_only=True)
class KubePorts(LabelledPort):
    """The native port, the checks of each connection, and the kubeconfig."""

    directory: str = "kube"
    variable: str = "KUBECONFIG"
    usual_file: str = ".kube/config"
    edits: Mapping[str, MakeEdit] = field(
        factory=lambda: {
            DENIED: only_inserted(denied),
            REFUSED: only_inserted(refused),
            BAD_ANSWER: only_inserted(bad_answer),
            ENDED: only_inserted(ended),
            ANSWERED: only_inserted(answered),
        }
    )

    def check(self, names: Mapping[str, str] | None, resource: str) -> ToolCheck:
        """See ICheckedEndpoint."""
        return ToolCheck(RequestCheck(names, resource, also=refuse_browsers, protocols=PROTOCOLS))

    def file_name(self, resource: str) -> str:
        """See IDescribedEndpoint."""
        return f"{resource}.yaml"

    def description(
        self, cluster: str, resource: str, address: str, *, place: str = "", options: str = ""
    ) -> bytes:
        """A kubeconfig with one context; see IDescribedEndpoint."""
        return kubeconfig({resource: address}, current=resource)


LOCAL = KubePorts(default_port=6443)
