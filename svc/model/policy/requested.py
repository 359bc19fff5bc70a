"""Requests for access: what a person asks for, and what another one decided about it.

A request whose approval is in force becomes the fact ``approved_request`` of a session's decision.
Both rows give somebody something, so they are protected state (rule R8).

A request may be for one exact text: a SQL statement, or the method and target of an HTTP request.
Then its approval covers a request of exactly these bytes and nothing else (rule R30).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from enum import Enum
from hashlib import sha256
from typing import Final

from attrs import field, frozen

from svc.errors import Malformed
from svc.model.canonical import Json
from svc.model.clocks import typed_duration
from svc.model.policy.access import ContextValue
from svc.model.policy.approval import MAX_VALID_SECS

APPROVED_REQUEST: Final = "approved_request"
"""The fact of a request that an approval in force covers."""

COMMAND_OPTIONS: Final = "command_options"
"""In the values of an edit and the details of a refusal, at the person's machine: what the commands
that are told to type end with, to use this identity.  The client puts it there, over whatever a
Proxy says under this name."""

REQUESTABLE: Final = "requestable"
"""The annotation of a permit that people may ask for."""

_COMMAND = re.compile(
    r"svc request [A-Za-z0-9][A-Za-z0-9._-]{0,252}(?: --action [A-Za-z0-9]{1,63})?"
    r"(?: --parameter [a-z0-9_]{1,63}=[A-Za-z0-9._@:/+-]{1,253}){0,16}"
    r"|svc request --decision [0-9a-f]{32}"
)

MAX_REASON = 256
MAX_TEXT_BYTES = 8 * 1024
"""Of an exact text that can be asked for: what a person can be expected to read."""

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
        text: The bytes of the one request that is asked for; empty: any request of the action.
    """

    resource: str
    action: str = ""
    parameters: Mapping[str, str] = field(factory=dict)
    reason: str = ""
    secs: int
    uses: int | None = None
    text: bytes = field(default=b"", repr=False)


@frozen(kw_only=True)
class RequestedAccess:
    """One request.

    Attributes:
        resource_identity: Which of the resources that have had this id.
        salt: Random; goes into the digest of the row, so that nobody can try reasons against it.
        used: How many sessions have been opened by it.
        ends_at: Of an open one, when it is no longer decided; of an approved one, when the
            approval ends.
        text_sha256: In hex, of the exact text that it is for; empty: any request of the action.
        sealed_text: That text, until it can be used no more; in no digest, since what it opens to
            is held to ``text_sha256``.
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
    text_sha256: str = ""
    sealed_text: bytes = field(default=b"", repr=False)

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

    def is_like(self, other: RequestedAccess) -> bool:
        """Whether both are for the same, whatever their ids and times."""
        alike = (
            "person_id",
            "resource_identity",
            "action",
            "asked_secs",
            "uses",
            "reason",
            "text_sha256",
        )
        is_alike = all(getattr(self, name) == getattr(other, name) for name in alike)
        return is_alike and dict(self.parameters) == dict(other.parameters)

    def covers(
        self, identity: str, action: str, facts: Mapping[str, str], text_sha256: str = ""
    ) -> bool:
        """Whether it was asked for exactly this: resource, action, parameters, and the text."""
        mine = (self.resource_identity, self.action, self.text_sha256)
        if mine != (identity, action, text_sha256):
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
        exact: Whether it is for the exact text of one request.
    """

    request_id: str
    approver: str
    ends_at: int
    exact: bool = False

    @property
    def fact(self) -> dict[str, ContextValue]:
        """The value of ``approved_request`` in a decision."""
        return approved_fact(self.request_id, self.approver, self.ends_at, exact=self.exact)


def approved_fact(
    request_id: str, approver: str, ends_at: int, *, exact: bool
) -> dict[str, ContextValue]:
    """The value of ``approved_request``; ``exact`` is there only where it holds."""
    fact: dict[str, ContextValue] = {"id": request_id, "approver": approver, "expires": ends_at}
    return {**fact, "exact": True} if exact else fact


def text_digest(text: bytes) -> str:
    """What an exact text is known by; empty for none."""
    return sha256(text).hexdigest() if text else ""


def exact_command(decision_id: str) -> str:
    """What a person types to ask for exactly the request that was denied."""
    return shlex.join(["svc", "request", "--decision", decision_id])


def request_command(
    resource: str, action: str = "", parameters: Mapping[str, str] | None = None
) -> str:
    """What a person types to ask for access."""
    words = ["svc", "request", resource, *(("--action", action) if action else ())]
    for name, value in sorted((parameters or {}).items()):
        words += ["--parameter", f"{name}={value}"]
    return shlex.join(words)


def known_command(text: str) -> str:
    """*text* if it is such a command and a shell reads nothing into it.

    It came over a Proxy, and the person is about to type it.
    """
    return text if _COMMAND.fullmatch(text) else ""


def why_command(decision_id: str, options: str = "") -> str:
    """What a person types to have a decision explained."""
    return f"svc why {decision_id}{options}"


def request_document(request: RequestedAccess, cluster: str, person_name: str) -> dict[str, Json]:
    """Exactly what an approval allows: the document that its approver is shown and signs.

    An exact text stands in it by its SHA-256: whoever shows the text holds it to that.
    """
    exact = {"text_sha256": request.text_sha256} if request.text_sha256 else {}
    return {
        **exact,
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
        limit = f"at most {typed_duration(most)}" if ask.secs > most else "at least 1s"
        raise _bad(f"access is given for {limit} (access.max_secs)")
    if ask.uses is not None and not 1 <= ask.uses <= MAX_USES:
        raise _bad(f"the number of uses is 1 to {MAX_USES}")
    if ask.text:
        check_text(ask.text)
        if ask.uses is None:
            raise _bad("an exact text is approved for a number of uses; say how many")


def can_be_asked(text: bytes) -> bool:
    """Whether an approval can be of exactly this."""
    try:
        return bool(check_text(text))
    except Malformed:
        return False


def check_text(text: bytes) -> str:
    """An exact text as people read it.

    Raises:
        Malformed: ``bad_request``: it is longer than somebody would read, or no text.
    """
    if len(text) > MAX_TEXT_BYTES:
        raise _bad(
            f"the text has {len(text)} bytes; at most {MAX_TEXT_BYTES} can be asked for exactly"
        )
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError:
        raise _bad("the text is not UTF-8, so nobody could read what they approve") from None


def _bad(text: str) -> Malformed:
    return Malformed(text, reason="bad_request")
