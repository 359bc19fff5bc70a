"""The facets of agents: what they are, their certificates, for whom they may act."""

from __future__ import annotations

from collections.abc import Mapping

from zope.interface import Interface

from svc.model.cluster.agent import Agent, AgentCertificate, Delegation


class IAgents(Interface):
    """Agents; adding and revoking one counts in the catalog's revision."""

    def add(agent: Agent) -> None:
        """Add one.  Raises AlreadyExists: the id or the name is taken; NoSuchRow: no such owner."""

    def get(agent_id: str) -> Agent | None:
        """One, also when revoked."""

    def named(name: str) -> Agent | None:
        """The one of that name."""

    def all() -> tuple[Agent, ...]:
        """Every one, by name."""

    def of_owner(person_id: str) -> tuple[Agent, ...]:
        """The active ones of an owner, by name."""

    def revoke(agent_id: str, at: float) -> bool:
        """Revoke one for good; whether it was active until now."""

    def seen(agent_id: str, at: float) -> None:
        """It was here; says nothing about who may do what."""

    def last_seen() -> Mapping[str, float]:
        """When each was here last, of those of which that was told."""


class IAgentCertificates(Interface):
    """Certificates issued to agents."""

    def issued(certificate: AgentCertificate) -> None:
        """Remember one.  Raises AlreadyExists for a known hash or serial."""

    def get(sha256: bytes) -> AgentCertificate | None:
        """The certificate of that SHA-256."""

    def of(agent_id: str) -> tuple[AgentCertificate, ...]:
        """Those of an agent, the newest first."""

    def unexpired(at: float) -> tuple[AgentCertificate, ...]:
        """Every certificate that has not expired at *at*, by hash."""


class IDelegations(Interface):
    """For whom agents may act; each change counts in the catalog's revision."""

    def add(delegation: Delegation) -> None:
        """Add one.  Raises AlreadyExists for a known id."""

    def get(delegation_id: str) -> Delegation | None:
        """One, also when revoked."""

    def unexpired(at: float) -> tuple[Delegation, ...]:
        """Every one that has not expired at *at*, revoked ones included, by id."""

    def revoke(delegation_id: str, at: float) -> bool:
        """Revoke one; whether it was good until now."""
