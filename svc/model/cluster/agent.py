"""Agents: programs that act for somebody, with certificates of their own.

An agent has an owner, and is in force only while its owner is.  It may be named as acting
for a person while a delegation lasts, where policy allows that too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from enum import Enum

from attrs import field, frozen

from svc.errors import Denied
from svc.model.cluster.person import Person, PersonState
from svc.model.ids import is_agent_id

DISABLED_OWNER = "disabled_owner"
"""Why an agent is refused, and why the sessions of one end, whose owner was disabled."""

DISABLED_OWNER_TEXT = "the owner of this agent was disabled by an operator"


class AgentState(Enum):
    """Whether the cluster accepts an agent; a revoked one stays so."""

    ACTIVE = "active"
    REVOKED = "revoked"


@frozen
class Assertion:
    """Whose assertion an agent may enroll by: what its platform's token must say.

    Attributes:
        issuer: Of the platform; empty: the agent enrolls by a token of this cluster only.
        claims: Each is there with just this text.
    """

    issuer: str = ""
    audience: str = ""
    claims: Mapping[str, str] = field(factory=dict)


@frozen
class Agent:
    """One agent.

    Attributes:
        owner: The id of the person who answers for it.
    """

    id: str
    name: str
    owner: str
    state: AgentState = AgentState.ACTIVE
    assertion: Assertion = Assertion()
    added_at: float = 0.0


@frozen
class AgentCertificate:
    """A certificate that was signed for an agent; good while the agent is.

    Attributes:
        sha256: Of the DER certificate.
        generation: Greater by one with each renewal, and with each enrollment.
    """

    sha256: bytes
    serial: str
    agent_id: str
    key_sha256: bytes
    generation: int
    issued_at: float
    expires: float


@frozen
class Delegation:
    """An agent may be named as acting for a person, for some actions, for a while.

    Attributes:
        actions: Of policies: those that open sessions.
    """

    id: str
    agent_id: str
    person_id: str
    actions: tuple[str, ...]
    added_at: float
    expires_at: float
    revoked_at: float | None = None

    @property
    def texts(self) -> tuple[str, ...]:
        """It as a Proxy is told: a text for each action, which :func:`is_delegated` reads."""
        end = math.floor(self.expires_at)
        return tuple(f"{self.person_id} {action} {end}" for action in sorted(self.actions))

    def covers(self, person_id: str, action: str, at: float) -> bool:
        """Whether the agent may do *action* in the name of a person at *at*."""
        is_good = self.revoked_at is None and at < self.expires_at
        return is_good and self.person_id == person_id and action in self.actions


def require_agent(agent: Agent | None, owner: Person | None) -> Agent:
    """The agent, if the cluster accepts it.

    Args:
        owner: The person that its row names.

    Raises:
        Denied: ``unknown_agent``, ``revoked_agent`` or ``disabled_owner``.
    """
    if agent is None:
        raise Denied("the agent is not known here", reason="unknown_agent")
    if agent.state is AgentState.REVOKED or owner is None or owner.state is PersonState.REVOKED:
        raise Denied("the agent was revoked", reason="revoked_agent")
    if owner.state is PersonState.DISABLED:
        raise Denied(DISABLED_OWNER_TEXT, reason=DISABLED_OWNER)
    return agent


def caller_kind(id: str) -> str:
    """What records call somebody who opens sessions: ``agent`` or ``person``."""
    return "agent" if is_agent_id(id) else "person"


def is_delegated(texts: Iterable[str], person_id: str, action: str, at: float) -> bool:
    """Whether one of a Proxy's texts lets an agent do *action* in a person's name at *at*."""
    for text in texts:
        told = text.split(" ")
        is_of_it = told[:2] == [person_id, action] and len(told) == 3 and told[2].isdecimal()
        if is_of_it and at < int(told[2]):
            return True
    return False
