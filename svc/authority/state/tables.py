"""Gives out protected rows inside a transaction, if a signed record covers them (rule R8).

Whoever reads a row of people, nodes, tokens, certificates, resources or
policies to decide by it, or to change it, reads it here.  A row that is not
what the newest signed record of its subject says has no effect: reading it is
refused, whatever was asked.  A change therefore never puts its signature under
what somebody else did to the row before.
"""

from __future__ import annotations

from typing import Any, TypeVar

from attrs import frozen

from svc.audit.state.in_force import Seen, StateBroken, StateLedger
from svc.audit.state.key_tables import (
    KEY_SETS,
    KEYS,
    PAUSES,
    ROOT_OWNERS,
    ROOT_SHARES,
    ROOTS,
)
from svc.audit.state.protected import ProtectedTable
from svc.audit.state.unsigned_row import StateUnsigned as StateUnsigned
from svc.audit.state.unsigned_row import refuse_unsigned as refuse_unsigned
from svc.interfaces.store import ITransaction
from svc.model.audit.rows.catalog import epoch_entry, resource_entry, scope_entry
from svc.model.audit.state import (
    StateEntry,
    access_decision_entry,
    access_entry,
    agent_certificate_entry,
    agent_entry,
    certificate_entry,
    delegation_entry,
    expected_entry,
    group_entry,
    identity_entry,
    node_entry,
    person_entry,
    policy_approval_entry,
    policy_entry,
    proposal_entry,
    secret_entry,
    sign_in_entry,
    token_entry,
)
from svc.model.cluster.account import PersonSecret
from svc.model.cluster.agent import Agent, AgentCertificate, Delegation
from svc.model.cluster.key_revision import KeyRevision
from svc.model.cluster.node import ExpectedKey, KeptToken, Node
from svc.model.cluster.person import IssuedCertificate, Person
from svc.model.cluster.registration import Epoch
from svc.model.cluster.resource import Resource
from svc.model.cluster.scope import DiscoveryScope
from svc.model.cluster.sign_in import IdentityLink, SignIn
from svc.model.policy.proposal import Proposal, ProposalDecision
from svc.model.policy.requested import KeptApproval, RequestedAccess
from svc.model.policy.version import PolicyVersion

_Id = TypeVar("_Id")
_Row = TypeVar("_Row")


PERSONS = ProtectedTable[str, Person](
    name="person",
    get=lambda tx, person_id: tx.people.get(person_id),
    all=lambda tx, at: tx.people.all(),
    entry_of=person_entry,
    id_of=lambda person: person.id,
)
GROUPS = ProtectedTable[str, str](
    name="group",
    get=lambda tx, name: name if name in tx.people.groups() else None,
    all=lambda tx, at: tx.people.groups(),
    entry_of=group_entry,
    id_of=str,
)
NODES = ProtectedTable[str, Node](
    name="node",
    get=lambda tx, node_id: tx.nodes.get(node_id),
    all=lambda tx, at: tx.nodes.all(),
    entry_of=node_entry,
    id_of=lambda node: node.id,
)
RESOURCES = ProtectedTable[str, Resource](
    name="resource",
    get=lambda tx, resource_id: tx.catalog.get(resource_id),
    all=lambda tx, at: tx.catalog.all(),
    entry_of=resource_entry,
    id_of=lambda resource: resource.id,
)
TOKENS = ProtectedTable[str, KeptToken](
    name="token",
    get=lambda tx, token_id: tx.tokens.get(token_id),
    all=lambda tx, at: tx.tokens.unexpired(at),
    entry_of=token_entry,
    id_of=lambda kept: kept.token.id,
    expires=True,
)
EXPECTED = ProtectedTable[str, ExpectedKey](
    name="expected",
    get=lambda tx, key_id: tx.expected.get(key_id),
    all=lambda tx, at: tx.expected.unexpired(at),
    entry_of=expected_entry,
    id_of=lambda expected: expected.id,
    expires=True,
)
CERTIFICATES = ProtectedTable[bytes, IssuedCertificate](
    name="certificate",
    get=lambda tx, sha256: tx.certificates.get(sha256),
    all=lambda tx, at: tx.certificates.unexpired(at),
    entry_of=certificate_entry,
    id_of=lambda issued: issued.sha256.hex(),
    expires=True,
)
IDENTITIES = ProtectedTable[str, IdentityLink](
    name="identity",
    get=lambda tx, link_id: tx.sign_ins.identity(link_id),
    all=lambda tx, at: tx.sign_ins.identities(),
    entry_of=identity_entry,
    id_of=lambda link: link.id,
)
SIGN_INS = ProtectedTable[str, SignIn](
    name="signin",
    get=lambda tx, sign_in_id: tx.sign_ins.get(sign_in_id),
    all=lambda tx, at: tx.sign_ins.unexpired(at),
    entry_of=sign_in_entry,
    id_of=lambda sign_in: sign_in.id,
    expires=True,
)
SECRETS = ProtectedTable[str, PersonSecret](
    name="secret",
    get=lambda tx, secret_id: tx.secrets.get(secret_id),
    all=lambda tx, at: tx.secrets.all(),
    entry_of=secret_entry,
    id_of=lambda secret: secret.id,
)
ACCESS_REQUESTS = ProtectedTable[str, RequestedAccess](
    name="access",
    get=lambda tx, request_id: tx.access.get(request_id),
    all=lambda tx, at: tx.access.unexpired(at),
    entry_of=access_entry,
    id_of=lambda request: request.id,
    expires=True,
)
ACCESS_DECISIONS = ProtectedTable[str, KeptApproval](
    name="access_decision",
    get=lambda tx, request_id: tx.access.decision(request_id),
    all=lambda tx, at: tx.access.decisions(at),
    entry_of=access_decision_entry,
    id_of=lambda kept: kept.request_id,
    expires=True,
)
AGENTS = ProtectedTable[str, Agent](
    name="agent",
    get=lambda tx, agent_id: tx.agents.get(agent_id),
    all=lambda tx, at: tx.agents.all(),
    entry_of=agent_entry,
    id_of=lambda agent: agent.id,
)
AGENT_CERTIFICATES = ProtectedTable[bytes, AgentCertificate](
    name="agentcert",
    get=lambda tx, sha256: tx.agent_certificates.get(sha256),
    all=lambda tx, at: tx.agent_certificates.unexpired(at),
    entry_of=agent_certificate_entry,
    id_of=lambda issued: issued.sha256.hex(),
    expires=True,
)
DELEGATIONS = ProtectedTable[str, Delegation](
    name="delegation",
    get=lambda tx, delegation_id: tx.delegations.get(delegation_id),
    all=lambda tx, at: tx.delegations.unexpired(at),
    entry_of=delegation_entry,
    id_of=lambda delegation: delegation.id,
    expires=True,
)
SCOPES = ProtectedTable[str, DiscoveryScope](
    name="scope",
    get=lambda tx, name: tx.scopes.get(name),
    all=lambda tx, at: tx.scopes.all(),
    entry_of=scope_entry,
    id_of=lambda scope: scope.name,
)
EPOCHS = ProtectedTable[str, Epoch](
    name="epoch",
    get=lambda tx, name: tx.epochs.get(name),
    all=lambda tx, at: tx.epochs.all(),
    entry_of=epoch_entry,
    id_of=lambda epoch: epoch.name,
)
POLICIES = ProtectedTable[int, PolicyVersion](
    name="policy",
    get=lambda tx, version: tx.policies.get(version),
    all=lambda tx, at: tx.policies.history(1_000_000),
    entry_of=policy_entry,
    id_of=lambda policy: str(policy.version),
)

PROPOSALS = ProtectedTable[str, Proposal](
    name="proposal",
    get=lambda tx, proposal_id: tx.proposals.get(proposal_id),
    all=lambda tx, at: tx.proposals.unexpired(at),
    entry_of=proposal_entry,
    id_of=lambda proposal: proposal.id,
    expires=True,
)
POLICY_APPROVALS = ProtectedTable[str, ProposalDecision](
    name="policyapproval",
    get=lambda tx, approval_id: tx.policy_approvals.get(*approval_id.split(":")),
    all=lambda tx, at: tx.policy_approvals.unexpired(at),
    entry_of=policy_approval_entry,
    id_of=lambda approval: approval.id,
    expires=True,
)

PROTECTED: tuple[ProtectedTable[Any, Any], ...] = (
    PERSONS,
    GROUPS,
    NODES,
    RESOURCES,
    KEYS,
    TOKENS,
    EXPECTED,
    CERTIFICATES,
    IDENTITIES,
    SIGN_INS,
    SECRETS,
    ACCESS_REQUESTS,
    ACCESS_DECISIONS,
    AGENTS,
    AGENT_CERTIFICATES,
    DELEGATIONS,
    SCOPES,
    EPOCHS,
    ROOTS,
    ROOT_OWNERS,
    ROOT_SHARES,
    KEY_SETS,
    PAUSES,
    POLICIES,
    PROPOSALS,
    POLICY_APPROVALS,
)
"""Every protected noun, in the order in which a record of many names their rows."""


@frozen
class SignedRows:
    """The protected rows of one transaction, as they were when this was made."""

    tx: ITransaction
    seen: Seen
    ledger: StateLedger

    @classmethod
    def of(cls, ledger: StateLedger, tx: ITransaction) -> SignedRows:
        """For reading in *tx* now; made again after a change in the same transaction.

        Raises:
            StateUnsigned: the store has records of state that do not verify.
        """
        try:
            return cls(tx, ledger.within(tx.state), ledger)
        except StateBroken as broken:
            raise StateUnsigned(broken.text) from broken

    def node(self, node_id: str) -> Node | None:
        """The node, also when revoked.  Raises StateUnsigned; so do all below."""
        return self._good(NODES, node_id)

    def node_called(self, word: str) -> Node | None:
        """The node of that id, or the active one of that name."""
        found = self.node(word)
        if found is None and (found := self.tx.nodes.named(word)) is not None:
            self.require(node_entry(found))
        return found

    def expected(self, key_id: str) -> ExpectedKey | None:
        """A key that may join without a token, also when used."""
        return self._good(EXPECTED, key_id)

    def person(self, person_id: str) -> Person | None:
        """The person, also when revoked."""
        return self._good(PERSONS, person_id)

    def person_named(self, name: str) -> Person | None:
        """The person of that name."""
        found = self.tx.people.named(name)
        if found is not None:
            self.require(person_entry(found))
        return found

    def group(self, name: str) -> bool:
        """Whether the group exists; a removed one may be added again."""
        if name not in self.tx.people.groups():
            return False
        self.require(group_entry(name))
        return True

    def token(self, token_id: str) -> KeptToken | None:
        """The join token, also when spent."""
        return self._good(TOKENS, token_id)

    def certificate(self, sha256: bytes) -> IssuedCertificate | None:
        """The certificate, also when revoked."""
        return self._good(CERTIFICATES, sha256)

    def identity_of(self, issuer: str, subject: str) -> IdentityLink | None:
        """The link of somebody of a provider."""
        found = self.tx.sign_ins.of(issuer, subject)
        return None if found is None else self._good(IDENTITIES, found.id)

    def identity(self, link_id: str) -> IdentityLink | None:
        """One link."""
        return self._good(IDENTITIES, link_id)

    def sign_in(self, sign_in_id: str) -> SignIn | None:
        """The sign-in, also when ended."""
        return self._good(SIGN_INS, sign_in_id)

    def secrets_of(self, person_id: str) -> tuple[PersonSecret, ...]:
        """What a person without a provider signs in by."""
        found = self.tx.secrets.of(person_id)
        for one in found:
            self.require(secret_entry(one))
        return found

    def access_request(self, request_id: str) -> RequestedAccess | None:
        """A request for access, whatever became of it."""
        return self._good(ACCESS_REQUESTS, request_id)

    def access_decision(self, request_id: str) -> KeptApproval | None:
        """What another person decided about it."""
        return self._good(ACCESS_DECISIONS, request_id)

    def agent(self, agent_id: str) -> Agent | None:
        """The agent, also when revoked."""
        return self._good(AGENTS, agent_id)

    def agent_named(self, name: str) -> Agent | None:
        """The agent of that name."""
        found = self.tx.agents.named(name)
        return None if found is None else self._good(AGENTS, found.id)

    def agent_certificate(self, sha256: bytes) -> AgentCertificate | None:
        """A certificate of an agent."""
        return self._good(AGENT_CERTIFICATES, sha256)

    def delegation(self, delegation_id: str) -> Delegation | None:
        """A delegation, also when revoked."""
        return self._good(DELEGATIONS, delegation_id)

    def resource(self, resource_id: str) -> Resource | None:
        """The resource, with its assignment."""
        return self._good(RESOURCES, resource_id)

    def scope(self, name: str) -> DiscoveryScope | None:
        """The scope of that name."""
        return self._good(SCOPES, name)

    def scopes(self) -> tuple[DiscoveryScope, ...]:
        """The scopes that are as they were signed for, by name; another one admits nothing."""
        return tuple(one for one in self.tx.scopes.all() if self.is_signed(scope_entry(one)))

    def epoch(self, name: str) -> Epoch | None:
        """The epoch of that name in force."""
        return self._good(EPOCHS, name)

    def is_newest_resource(self, resource: Resource) -> bool:
        """Whether *resource* is what the newest signed record of it says; reads no table."""
        subject = RESOURCES.subject(resource.id)
        signed = self.seen.get(subject)
        entry = self.ledger.entry(subject, resource, resource_entry)
        return signed is not None and signed.digest == entry.digest

    def policy(self, version: int) -> PolicyVersion | None:
        """One version of the policy."""
        return self._good(POLICIES, version)

    def policy_in_force(self) -> PolicyVersion | None:
        """The newest version in force; the store must have no newer one without a signature."""
        for newer in self.tx.policies.newer(self.seen.policy, 1):
            raise refuse_unsigned(POLICIES.subject(newer.version))
        for version in range(self.seen.policy, 0, -1):
            found = self.policy(version)
            if found is not None and found.activated_at is not None:
                return found
        return None

    def proposal(self, proposal_id: str) -> Proposal | None:
        """A proposed policy, also when closed."""
        return self._good(PROPOSALS, proposal_id)

    def policy_approvals(self, proposal_id: str) -> tuple[ProposalDecision, ...]:
        """The decisions about a proposal that are as they were signed for; others do not count."""
        found = self.tx.policy_approvals.of(proposal_id)
        return tuple(one for one in found if self.is_signed(policy_approval_entry(one)))

    def keys(self, kind: str) -> tuple[KeyRevision, ...]:
        """Every revision of a kind; see :meth:`every`."""
        return tuple(self.every(KEYS, f"{kind}:").values())

    def every(self, table: ProtectedTable[Any, _Row], begins: str = "") -> dict[str, _Row]:
        """The rows of a table, by id; refused as a whole where one is not as it was signed.

        Args:
            begins: Only those whose id begins so.
        """
        rows = {table.id_of(row): row for row in table.all(self.tx, 0.0)}
        rows = {row_id: row for row_id, row in rows.items() if row_id.startswith(begins)}
        entries = {table.subject(row_id): table.entry_of(row) for row_id, row in rows.items()}
        for subject, signed in self.seen.all().items():
            if subject.startswith(table.subject(begins)) and signed.digest is not None:
                entries.setdefault(subject, StateEntry(subject, None))
        for entry in entries.values():
            self.require(entry)
        return rows

    def is_signed(self, entry: StateEntry) -> bool:
        """Whether a row is the one recorded."""
        signed = self.seen.get(entry.subject)
        return signed is not None and signed.digest == entry.digest

    def require(self, entry: StateEntry) -> None:
        """Refuse a row that is not the one recorded."""
        if not self.is_signed(entry):
            raise refuse_unsigned(entry.subject)

    def _good(self, table: ProtectedTable[_Id, _Row], row_id: _Id) -> _Row | None:
        row, subject = table.get(self.tx, row_id), table.subject(row_id)
        signed = self.seen.get(subject)
        if row is None and signed is None:
            return None
        if row is None or signed is None:
            raise refuse_unsigned(subject)
        if self.ledger.entry(subject, row, table.entry_of).digest != signed.digest:
            raise refuse_unsigned(subject)
        return row


def rows_now(tx: ITransaction, at: float) -> dict[str, StateEntry]:
    """Every protected row that means anything at *at*."""
    return {one.subject: one for table in PROTECTED for one in table.entries(tx, at)}
