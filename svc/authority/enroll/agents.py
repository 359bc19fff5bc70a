"""Issues certificates to agents: at a token, at an assertion of their platform, at a renewal.

Called inside a transaction; the caller runs it and has spent the token.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define

from svc.authority.enroll.issued import certificate_details
from svc.authority.state.credentials import hidden_of
from svc.authority.state.recorder import Recorder, person
from svc.authority.state.tables import AGENT_CERTIFICATES, AGENTS, StateUnsigned
from svc.errors import Denied
from svc.interfaces.store import ITransaction
from svc.model.audit.events import AGENT_ENROLL, AGENT_RENEW, AGENT_REVOKE
from svc.model.audit.record import Event
from svc.model.audit.state import StateEntry
from svc.model.certificate import CertificateFacts, NewCertificate
from svc.model.cluster.agent import Agent, AgentCertificate, require_agent
from svc.model.cluster.token import TokenGrant
from svc.model.principal import Role
from svc.pki.enroll import CertificateIssuer, CloneSuspected, HolderStanding


@define
class AgentCertificates:
    """Signs for agents that are in force."""

    issuer: CertificateIssuer
    recorder: Recorder
    now: Callable[[], float]

    def require(self, tx: ITransaction, agent_id: str) -> Agent:
        """The agent, if it may have a certificate.

        Raises:
            Denied: as require_agent, or a row is not what was signed for.
        """
        rows = self.recorder.rows(tx)
        found = rows.agent(agent_id)
        return require_agent(found, None if found is None else rows.person(found.owner))

    def enroll(
        self,
        tx: ITransaction,
        agent: Agent,
        csr: bytes,
        *,
        token_id: str = "",
        issuer: str = "",
        used: tuple[StateEntry, ...] = (),
    ) -> NewCertificate:
        """A certificate that follows none; *used* is what it came by, for the record."""
        newest = self._newest(tx, agent)
        grant = TokenGrant(token_id, Role.AGENT, subject_id=agent.id, name=agent.name)
        issued = self.issuer.admit(grant, csr, 1 if newest is None else newest.generation + 1)
        more = {"token_id": token_id} if token_id else {"issuer": issuer}
        self._issued(tx, AGENT_ENROLL, agent, issued, more, used)
        return issued

    def renew(self, tx: ITransaction, shown: CertificateFacts, csr: bytes) -> NewCertificate | None:
        """The next certificate; None: it was asked for by a copy, and the agent is revoked.

        Raises:
            Denied: the agent is not in force, the certificate was not issued here, or the store
                does not show every certificate that the agent has.
        """
        agent = self.require(tx, shown.principal.id)
        newest = self._newest(tx, agent)
        if newest is None or self.recorder.rows(tx).agent_certificate(shown.sha256) is None:
            raise Denied("the certificate was revoked", reason="revoked_certificate")
        try:
            standing = HolderStanding(newest.generation, newest.key_sha256)
            issued = self.issuer.renew(shown, csr, standing)
        except CloneSuspected as clone:
            tx.agents.revoke(agent.id, self.now())
            self.recorder.append(
                tx,
                AGENT_REVOKE,
                person(agent.id),
                reason=clone.reason,
                details={
                    "agent_id": agent.id,
                    "person_id": agent.owner,
                    "generation": shown.generation,
                },
                state=[AGENTS.now(tx, agent.id)],
            )
            return None
        self._issued(tx, AGENT_RENEW, agent, issued, {}, ())
        return issued

    def _newest(self, tx: ITransaction, agent: Agent) -> AgentCertificate | None:
        """The certificate of the highest generation that was issued to the agent.

        Raises:
            StateUnsigned: a row is missing or altered.  It may be the newest one, and without it a
                copy of an older certificate would pass for the newest.
        """
        rows = self.recorder.rows(tx)
        if hidden_of(rows, AGENT_CERTIFICATES, "agent_id", agent.id, self.now()):
            raise StateUnsigned(
                "the agent gets no certificate: the store differs from the signed records of "
                "those that it has (see `svc authority status`); have an operator correct the "
                "store, or revoke the agent and add another"
            )
        found = tx.agent_certificates.of(agent.id)
        good = (one for one in found if rows.is_signed(AGENT_CERTIFICATES.entry_of(one)))
        return next(good, None)

    def _issued(
        self,
        tx: ITransaction,
        event: Event,
        agent: Agent,
        issued: NewCertificate,
        more: dict[str, str],
        used: tuple[StateEntry, ...],
    ) -> None:
        facts = issued.facts
        tx.agent_certificates.issued(
            AgentCertificate(
                sha256=facts.sha256,
                serial=facts.serial,
                agent_id=agent.id,
                key_sha256=issued.key_sha256,
                generation=facts.generation,
                issued_at=self.now(),
                expires=facts.not_after,
            )
        )
        details = {
            **certificate_details(issued),
            "agent_id": agent.id,
            "person_id": agent.owner,
            **more,
        }
        state = [*used, AGENT_CERTIFICATES.now(tx, facts.sha256)]
        self.recorder.append(tx, event, person(agent.id), details=details, state=state)
