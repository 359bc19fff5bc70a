"""Requests for access: what a person asks for, and what another one decided about it.

A request whose approval is in force becomes the fact ``approved_request`` of a session's decision.
Both rows give somebody something, so they are protected state (rule R8).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from enum import Enum
from typing import Final

from attrs import field, frozen

from svc.errors import Malformed
from svc.model.canonical import Json
from svc.model.policy.access import ContextValue
from svc.model.policy.approval import MAX_VALID_SECS

APPROVED_REQUEST: Final = "approved_request"
"""The fact of a request that an approval in force covers."""

REQUESTABLE: Final = "requestable"
"""The annotation of a permit that people may ask for."""

_COMMAND = re.compile(
    r"svc request [A-Za-z0-9][A-Za-z0-9._-]{0,252}(?: --action [A-Za-z0-9]{1,63})?"
    r"(?: --parameter [a-z0-9_]{1,63}=[A-Za-z0-9._@:/+-]{1,253}){0,16}"
)

MAX_REASON = 256
MAX_USES = 1_000
MAX_OPEN = 10
"""Requests of one person that wait for a decision."""

OPEN_SECS = 24 * 3600
"""How long a request waits for a decision."""


class RequestState(Enum):
    """What became of a request; that it ended or was used up follows from time and count."""

    OPEN = "open"
    APPROVED = "approved"
    DENIED = "denied"
    WITHDRAWN = "withdrawn"


@frozen(kw_only=True)
class AccessAsk:
    """What a person asks for.

    Attributes:
        action: Empty: the one that opens a session of the resource's kind.
        parameters: Of the session, by the names of the kind; one that is not named may have any
            value that the policy allows.
        secs: How long, from the approval on.
        uses: How many sessions; None: any number.
    """

    resource: str
    action: str = ""
    parameters: Mapping[str, str] = field(factory=dict)
    reason: str = ""
    secs: int
    uses: int | None = None


@frozen(kw_only=True)
class RequestedAccess:
    """One request.

    Attributes:
        resource_identity: Which of the resources that have had this id.
        salt: Random; goes into the digest of the row, so that nobody can try reasons against it.
        used: How many sessions have been opened by it.
        ends_at: Of an open one, when it is no longer decided; of an approved one, when the
            approval ends.
    """

    id: str
    person_id: str
    resource_id: str
    resource_identity: str
    kind: str
    action: str
    parameters: Mapping[str, str]
    reason: str
    salt: bytes = field(default=b"", repr=False)
    asked_secs: int
    uses: int | None
    used: int = 0
    asked_at: float
    ends_at: float
    state: RequestState = RequestState.OPEN

    def standing(self, now: float) -> str:
        """Its state as people are told it: ``expired`` and ``used`` among others."""
        if self.state is RequestState.APPROVED and self.is_used_up:
            return "used"
        is_live = self.state in (RequestState.OPEN, RequestState.APPROVED)
        return "expired" if is_live and now >= self.ends_at else self.state.value

    @property
    def is_used_up(self) -> bool:
        """Whether it opens nothing any more, whatever the time."""
        return self.uses is not None and self.used >= self.uses

    def covers(self, identity: str, action: str, facts: Mapping[str, str]) -> bool:
        """Whether it was asked for exactly this: the resource, the action, the parameters."""
        if (self.resource_identity, self.action) != (identity, action):
            return False
        return all(facts.get(name) == value for name, value in self.parameters.items())


@frozen(kw_only=True)
class KeptApproval:
    """The decision of one other person, signed, as it is kept.

    Attributes:
        payload: The bytes that were signed; :func:`svc.model.policy.approval.decode_approval`.
        certificate: The approver's leaf, in DER.
        ends_at: As of the request.
    """

    request_id: str
    approver: str
    certificate_sha256: bytes
    payload: bytes = field(repr=False)
    signature: bytes = field(repr=False)
    certificate: bytes = field(repr=False)
    decided_at: float
    ends_at: float


@frozen(kw_only=True)
class ApprovedAccess:
    """An approval in force, as a decision and a session know it.

    Attributes:
        approver: Id of the person who approved.
        ends_at: Unix seconds; nothing stands on it from then on.
    """

    request_id: str
    approver: str
    ends_at: int

    @property
    def fact(self) -> dict[str, ContextValue]:
        """The value of ``approved_request`` in a decision."""
        return {"id": self.request_id, "approver": self.approver, "expires": self.ends_at}


def request_command(
    resource: str, action: str = "", parameters: Mapping[str, str] | None = None
) -> str:
    """What a person types to ask for access."""
    words = ["svc", "request", resource, *(("--action", action) if action else ())]
    for name, value in sorted((parameters or {}).items()):
        words += ["--parameter", f"{name}={value}"]
    return shlex.join(words)


def known_command(text: str) -> str:
    """*text* if it is what :func:`request_command` makes and a shell reads nothing into it.

    It came over a Proxy, and the person is about to type it.
    """
    return text if _COMMAND.fullmatch(text) else ""


def request_document(request: RequestedAccess, cluster: str, person_name: str) -> dict[str, Json]:
    """Exactly what an approval allows: the document that its approver is shown and signs."""
    return {
        "action": request.action,
        "asked_at": int(request.asked_at),
        "cluster": cluster,
        "id": request.id,
        "kind": request.kind,
        "parameters": dict(request.parameters),
        "person": request.person_id,
        "person_name": person_name,
        "reason": request.reason,
        "resource": request.resource_id,
        "resource_identity": request.resource_identity,
        "secs": request.asked_secs,
        "uses": request.uses,
    }


def check_ask(ask: AccessAsk, most_secs: int) -> None:
    """Refuse what nobody may ask for, whoever decides.

    Raises:
        Malformed: ``bad_request``, naming what and how much is allowed.
    """
    most = min(most_secs, MAX_VALID_SECS)
    if len(ask.reason) > MAX_REASON:
        raise _bad(f"the reason has more than {MAX_REASON} characters")
    if not ask.reason.isprintable():
        raise _bad("the reason has characters that cannot be shown; write it in one line")
    if not 1 <= ask.secs <= most:
        raise _bad(f"access is given for 1 to {most} seconds (access.max_secs)")
    if ask.uses is not None and not 1 <= ask.uses <= MAX_USES:
        raise _bad(f"the number of uses is 1 to {MAX_USES}")


def _bad(text: str) -> Malformed:
    return Malformed(text, reason="bad_request")
