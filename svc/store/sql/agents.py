"""Agents, their certificates, and for whom they may act."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from attrs import frozen
from zope.interface import implementer

from svc.errors import AlreadyExists, NoSuchRow
from svc.interfaces.agents import IAgentCertificates, IAgents, IDelegations
from svc.model.cluster.agent import Agent, AgentCertificate, AgentState, Assertion, Delegation
from svc.store.sql.columns import RowColumns, RowInsert, words
from svc.store.sql.statements import Statements, next_revision


def _agent(issuer: str, audience: str, claims: str, **plain: Any) -> Agent:
    return Agent(assertion=Assertion(issuer, audience, _claims(claims)), **plain)


def _claims(text: str) -> dict[str, str]:
    """The claims of a row; of a row with anything else there a value that no record signs."""
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        return {"": text}
    is_sound = isinstance(found, dict) and all(isinstance(one, str) for one in found.values())
    return found if is_sound else {"": text}


_AGENTS = RowColumns(
    _agent,
    "agents",
    "id, name, owner, state, issuer, audience, claims, added_at",
    state=AgentState,
)
_ADD_AGENT = RowInsert(
    "agents",
    "id, name, owner, state, issuer AS assertion.issuer, audience AS assertion.audience, added_at",
    also="claims",
)
_CERTIFICATES = RowColumns(
    AgentCertificate,
    "agent_certificates",
    "sha256, serial, agent_id, key_sha256, generation, issued_at, expires",
    sha256=bytes,
    key_sha256=bytes,
)
_ADD_CERTIFICATE = RowInsert("agent_certificates", _CERTIFICATES.listed)
_DELEGATIONS = RowColumns(
    Delegation,
    "delegations",
    "id, agent_id, person_id, actions, added_at, expires_at, revoked_at",
    actions=words,
)
_ADD_DELEGATION = RowInsert("delegations", _DELEGATIONS.listed)


@implementer(IAgents)
@frozen
class Agents:
    """See :class:`IAgents`."""

    _db: Statements

    def add(self, agent: Agent) -> None:
        if self._db.one("SELECT 1 FROM persons WHERE id = ?", agent.owner) is None:
            raise NoSuchRow("store: there is no such person")
        claims = agent.assertion.claims
        text = json.dumps(dict(sorted(claims.items()))) if claims else ""
        if not _ADD_AGENT(self._db, agent, claims=text):
            raise AlreadyExists(f"agent {agent.name}: the id or the name already exists")
        next_revision(self._db)

    def get(self, agent_id: str) -> Agent | None:
        return _AGENTS.one(self._db, "WHERE id = ?", agent_id)

    def named(self, name: str) -> Agent | None:
        return _AGENTS.one(self._db, "WHERE name = ?", name)

    def all(self) -> tuple[Agent, ...]:
        return _AGENTS.all(self._db, "ORDER BY name")

    def of_owner(self, person_id: str) -> tuple[Agent, ...]:
        where = "WHERE owner = ? AND state = 'active' ORDER BY name"
        return _AGENTS.all(self._db, where, person_id)

    def revoke(self, agent_id: str, at: float) -> bool:
        sql = (
            "UPDATE agents SET state = 'revoked', revoked_at = ? WHERE id = ? AND state = 'active'"
        )
        changed = self._db.change(sql, at, agent_id)
        if changed:
            next_revision(self._db)
        return bool(changed)

    def seen(self, agent_id: str, at: float) -> None:
        self._db.change("UPDATE agents SET last_seen = ? WHERE id = ?", at, agent_id)

    def last_seen(self) -> Mapping[str, float]:
        sql = "SELECT id, last_seen FROM agents WHERE last_seen IS NOT NULL"
        return {row[0]: float(row[1]) for row in self._db.all(sql)}


@implementer(IAgentCertificates)
@frozen
class AgentCertificateRows:
    """See :class:`IAgentCertificates`."""

    _db: Statements

    def issued(self, certificate: AgentCertificate) -> None:
        if not _ADD_CERTIFICATE(self._db, certificate):
            raise AlreadyExists("store: a certificate with this hash or serial already exists")

    def get(self, sha256: bytes) -> AgentCertificate | None:
        return _CERTIFICATES.one(self._db, "WHERE sha256 = ?", sha256)

    def of(self, agent_id: str) -> tuple[AgentCertificate, ...]:
        where = "WHERE agent_id = ? ORDER BY generation DESC, issued_at DESC, serial"
        return _CERTIFICATES.all(self._db, where, agent_id)

    def unexpired(self, at: float) -> tuple[AgentCertificate, ...]:
        return _CERTIFICATES.all(self._db, "WHERE expires > ? ORDER BY sha256", at)


@implementer(IDelegations)
@frozen
class Delegations:
    """See :class:`IDelegations`."""

    _db: Statements

    def add(self, delegation: Delegation) -> None:
        if not _ADD_DELEGATION(self._db, delegation):
            raise AlreadyExists("store: a delegation with this id already exists")
        next_revision(self._db)

    def get(self, delegation_id: str) -> Delegation | None:
        return _DELEGATIONS.one(self._db, "WHERE id = ?", delegation_id)

    def unexpired(self, at: float) -> tuple[Delegation, ...]:
        return _DELEGATIONS.all(self._db, "WHERE expires_at > ? ORDER BY id", at)

    def revoke(self, delegation_id: str, at: float) -> bool:
        sql = "UPDATE delegations SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL"
        changed = self._db.change(sql, at, delegation_id)
        if changed:
            next_revision(self._db)
        return bool(changed)
