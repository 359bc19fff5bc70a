"""A protected noun is declared once: each declaration fits its rows, and all of them are there."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.authority.state.tables import (
    AGENT_CERTIFICATES,
    CERTIFICATES,
    POLICIES,
    PROTECTED,
    rows_now,
)
from svc.interfaces.store import ITransaction
from svc.model.cluster.account import PersonSecret, SecretKind
from svc.model.cluster.agent import Agent, AgentCertificate, Delegation
from svc.model.cluster.node import ExpectedKey, TokenRecord, TokenRole
from svc.model.cluster.person import IssuedCertificate
from svc.model.cluster.registration import Epoch
from svc.model.cluster.scope import DiscoveryScope
from svc.model.cluster.sign_in import IdentityLink, SignIn
from svc.model.distribution import (
    DistributionRoot,
    KeySet,
    OwnerState,
    RootOwner,
    RootShare,
    RootState,
    RotationPause,
)
from svc.model.policy.approval import ApprovalDecision
from svc.model.policy.proposal import Proposal, ProposalDecision
from svc.model.policy.requested import KeptApproval, RequestedAccess
from tests.authority.house import ADA, EVE, House

LATER = 1e10


def _fill(tx: ITransaction) -> None:
    """A row of each table that the house has none of."""
    tx.keyrings.add("transport", "PEM", 1.0)
    token = TokenRecord(
        id="t" * 16, secret_sha256=b"s" * 32, role=TokenRole.PROXY, expires_at=LATER
    )
    tx.tokens.add(token, 1.0)
    expected = ExpectedKey(
        id="e1",
        role=TokenRole.PROXY,
        name="edge9",
        key_sha256=b"k" * 32,
        issuer="local:0",
        expires_at=LATER,
    )
    tx.expected.add(expected, 1.0)
    certificate = IssuedCertificate(
        sha256=b"c" * 32, serial="1", person_id=ADA, issued_at=1.0, expires=LATER
    )
    tx.certificates.issued(certificate)
    tx.sign_ins.link(
        IdentityLink(
            id="i1", issuer="https://id.example", subject="00u1", person_id=ADA, salt=b"salt"
        )
    )
    sign_in = SignIn(
        id="s1",
        identity_id="i1",
        person_id=ADA,
        auth_time=1.0,
        began_at=1.0,
        ends_at=LATER,
        certificate_sha256=b"c" * 32,
        key_sha256=b"k" * 32,
        generation=1,
    )
    tx.sign_ins.put(sign_in)
    tx.epochs.activate(Epoch(name="ssh_gate", epoch=1, activated_at=1.0, activated_by="local:0"))
    tx.scopes.put(DiscoveryScope(name="lab", kinds=("tcp",), set_by="local:0"))
    _fill_roots(tx)
    _propose(tx)
    _fill_requests(tx)


def _fill_roots(tx: ITransaction) -> None:
    key = b"k" * 32
    tx.roots.put_key_set(KeySet(revision=1, digest=key, since=1.0))
    root = DistributionRoot(
        epoch=1, digest=key, material_revision=1, state=RootState.PREPARED, prepared_at=1.0
    )
    tx.roots.put_root(root)
    owner = RootOwner(
        owner="a1",
        node_id="n1",
        receiver_key=key,
        sealing_key=key,
        state=OwnerState.RETAINED,
        since=1.0,
    )
    tx.roots.put_owner(owner)
    tx.roots.put_share(RootShare(1, "a1", b"sealed"))
    tx.keyrings.pause(RotationPause(is_paused=True, since=1.0, by="local:0"))


def _fill_requests(tx: ITransaction) -> None:
    request = RequestedAccess(
        id="r1",
        person_id=ADA,
        resource_id="db1",
        resource_identity="db1-1",
        kind="tcp",
        action="tcpConnect",
        parameters={},
        reason="",
        asked_secs=60,
        uses=1,
        asked_at=1.0,
        ends_at=LATER,
    )
    tx.access.put(request)
    decision = KeptApproval(
        request_id="r1",
        approver=EVE,
        certificate_sha256=b"c" * 32,
        payload=b"{}",
        signature=b"s",
        certificate=b"der",
        decided_at=2.0,
        ends_at=LATER,
    )
    tx.access.decide(decision)
    secret = PersonSecret(
        id="s1", person_id=ADA, kind=SecretKind.PASSWORD, sealed=b"sealed", added_at=1.0
    )
    tx.secrets.add(secret)
    tx.agents.add(Agent("agent-1", "deployer", ADA))
    issued = AgentCertificate(
        sha256=b"a" * 32,
        serial="2",
        agent_id="agent-1",
        key_sha256=b"k" * 32,
        generation=1,
        issued_at=1.0,
        expires=LATER,
    )
    tx.agent_certificates.issued(issued)
    delegation = Delegation(
        id="d1",
        agent_id="agent-1",
        person_id=ADA,
        actions=("tcpConnect",),
        added_at=1.0,
        expires_at=LATER,
    )
    tx.delegations.add(delegation)


def _propose(tx: ITransaction) -> None:
    """A proposal, and an approval of it."""
    tx.proposals.add(
        Proposal(
            id="p1",
            text="forbid (principal, action, resource);",
            policy_sha256=b"p" * 32,
            parent=1,
            parent_sha256=b"q" * 32,
            schema_sha256=b"s" * 32,
            entity_revision=1,
            proposer_kind="person",
            proposer=ADA,
            proposed_at=1.0,
            expires_at=LATER,
        )
    )
    tx.policy_approvals.put(
        ProposalDecision(
            proposal_id="p1",
            approver=EVE,
            decision=ApprovalDecision.APPROVE,
            payload=b"{}",
            signature=b"s",
            certificate=b"DER",
            decided_at=1.0,
            expires_at=LATER,
        )
    )


class TableTests(SynchronousTestCase):
    """The tables over a store that has a row of each."""

    def setUp(self) -> None:
        self.house = House()
        self.house.run(_fill)

    def look(self, fn: Any) -> Any:
        return self.house.run(fn)

    def test_each_row_is_called_by_its_id(self) -> None:
        """The subject that a table gives a row is the one that is signed, and finds the row."""

        def look(tx: ITransaction) -> dict[str, list[tuple[str, str]]]:
            return {
                table.name: [
                    (table.subject(table.id_of(row)), table.entry_of(row).subject)
                    for row in table.all(tx, 0.0)
                ]
                for table in PROTECTED
            }

        found = self.look(look)
        self.assertEqual(len(found), len(PROTECTED))
        for name, subjects in found.items():
            self.assertTrue(subjects, name)
            for called, signed in subjects:
                self.assertEqual(called, signed)
                self.assertTrue(signed.startswith(f"{name}:"), signed)

    def test_one_row_is_read_back(self) -> None:
        """A change's record says of a row what is signed of it; of none that it is gone."""

        def look(tx: ITransaction) -> None:
            for table in PROTECTED:
                for row in table.all(tx, 0.0):
                    row_id: Any = table.id_of(row)
                    if table in (CERTIFICATES, AGENT_CERTIFICATES):
                        row_id = bytes.fromhex(row_id)
                    elif table is POLICIES:
                        row_id = int(row_id)
                    self.assertEqual(table.now(tx, row_id), table.entry_of(row))
            for table, absent in zip(
                PROTECTED,
                ("x",) * 7 + (b"x",) + ("x",) * 6 + (b"x", *["x"] * 8, 99, "x", "x:y"),
                strict=True,
            ):
                self.assertIsNone(table.now(tx, absent).digest)

        self.look(look)

    def test_rows_of_all_tables(self) -> None:
        """All protected rows are those of each table, in the order of the tables."""

        def look(tx: ITransaction) -> list[str]:
            return [entry.sort for entry in rows_now(tx, 0.0).values()]

        sorts = list(dict.fromkeys(self.look(look)))
        self.assertEqual(sorts, [table.name for table in PROTECTED])

    def test_what_expires(self) -> None:
        """Rows that end by themselves are left out once their time is over; no others are."""

        def look(tx: ITransaction) -> set[str]:
            return {table.name for table in PROTECTED if not list(table.all(tx, LATER + 1))}

        self.assertEqual(self.look(look), {table.name for table in PROTECTED if table.expires})
