"""``gate.v1.Admin``: operators' commands, and the table of its methods.

Every change is one transaction with its audit record.  What each does stands
in the module of its subject; here is only which action each needs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from attrs import define
from google.protobuf.message import Message

from svc.authority.accounts.admin import AccountAdmin
from svc.authority.ingest.admin import QueueAdmin
from svc.authority.ingest.erase import RequestErasure
from svc.authority.policy.admin import PolicyAdmin
from svc.authority.policy.check import PolicyCheck
from svc.authority.policy.proposed.decisions import PolicyDecisions
from svc.authority.policy.proposed.proposals import PolicyProposals
from svc.authority.policy.proposed.review import PolicyReview
from svc.authority.registry.admin import RegistryAdmin
from svc.authority.registry.catalog import CatalogAdmin
from svc.authority.registry.credentials import CredentialAdmin
from svc.authority.registry.operators import EDIT_POLICY, VIEW_POLICY, Operators
from svc.authority.sessions.admin import SessionAdmin
from svc.authority.signin.links import IdentityLinks
from svc.interfaces.rpc import IRpcCall, RpcService, Serve, unary
from svc.model.audit.record import Actor
from svc.proto.gate.v1 import account_pb2, policy_change_pb2, sign_in_pb2
from svc.proto.gate.v1 import admin_pb2 as pb

_Request = TypeVar("_Request", bound=Message)

VIEW_STATUS = "viewStatus"
VIEW_AUDIT = "viewAudit"
MANAGE_NODES = "manageNodes"
MANAGE_PERSONS = "managePersons"
MANAGE_RESOURCES = "manageResources"
MANAGE_SESSIONS = "manageSessions"
MANAGE_AUDIT_QUEUE = "manageAuditQueue"


@define
class AdminService:
    """Binds each method to the action that the policy is asked for."""

    operators: Operators
    registry: RegistryAdmin
    sessions: SessionAdmin
    credentials: CredentialAdmin
    catalog: CatalogAdmin
    policies: PolicyAdmin
    checks: PolicyCheck
    proposals: PolicyProposals
    decisions: PolicyDecisions
    reviews: PolicyReview
    outbox: QueueAdmin
    erasure: RequestErasure
    links: IdentityLinks
    accounts: AccountAdmin
    records: Callable[[pb.ShowRecordsRequest, Actor], Awaitable[pb.ShowRecordsResponse]]
    status: Callable[[], Awaitable[pb.StatusResponse]]

    def service(self) -> RpcService:
        """The methods, for the RPC server."""
        catalog, policies, outbox = self.catalog, self.policies, self.outbox
        return RpcService(
            "gate.v1.Admin",
            {
                **self._of_nodes(),
                **self._of_people(),
                **self._of_groups(),
                **self._of_tokens(),
                **self._of_identities(),
                **self._of_accounts(),
                **self._of_agents(),
                **self._of_proposals(),
                "Status": self._guarded(pb.StatusRequest, VIEW_STATUS, self._status),
                "AddResource": self._guarded(pb.AddResourceRequest, MANAGE_RESOURCES, catalog.add),
                "ListResources": self._guarded(
                    pb.ListResourcesRequest, VIEW_STATUS, catalog.list_resources
                ),
                "AssignResource": self._guarded(
                    pb.AssignResourceRequest, MANAGE_RESOURCES, catalog.assign
                ),
                "MoveResources": self._guarded(
                    pb.MoveResourcesRequest, MANAGE_RESOURCES, catalog.move
                ),
                "RemoveResource": self._guarded(
                    pb.RemoveResourceRequest, MANAGE_RESOURCES, catalog.remove
                ),
                "ListBindings": self._guarded(
                    pb.ListBindingsRequest, VIEW_STATUS, catalog.list_bindings
                ),
                "SetPolicy": self._guarded(pb.SetPolicyRequest, EDIT_POLICY, policies.set),
                "ShowPolicy": self._guarded(pb.ShowPolicyRequest, VIEW_POLICY, policies.show),
                "CheckPolicy": unary(pb.CheckPolicyRequest, self._check),
                "PolicyHistory": self._guarded(
                    pb.PolicyHistoryRequest, VIEW_POLICY, policies.history
                ),
                "ReleaseRow": self._guarded(
                    pb.ReleaseRowRequest, MANAGE_AUDIT_QUEUE, outbox.release
                ),
                "DiscardRow": self._guarded(
                    pb.DiscardRowRequest, MANAGE_AUDIT_QUEUE, outbox.discard
                ),
                "ShowRecords": self._guarded(pb.ShowRecordsRequest, VIEW_AUDIT, self.records),
                "ListQueue": self._guarded(pb.ListQueueRequest, VIEW_AUDIT, outbox.list_rows),
                "EraseValue": self._guarded(
                    pb.EraseValueRequest, MANAGE_AUDIT_QUEUE, self.erasure.erase
                ),
            },
        )

    def _of_nodes(self) -> dict[str, Serve]:
        members = self.registry.nodes
        return {
            "AddNode": self._guarded(pb.AddNodeRequest, MANAGE_NODES, members.add_node),
            "ExpectNode": self._guarded(pb.ExpectNodeRequest, MANAGE_NODES, members.expect_node),
            "ListExpected": self._guarded(
                pb.ListExpectedRequest, VIEW_STATUS, members.expected.list_expected
            ),
            "WithdrawExpected": self._guarded(
                pb.WithdrawExpectedRequest, MANAGE_NODES, members.expected.withdraw
            ),
            "ListNodes": self._guarded(pb.ListNodesRequest, VIEW_STATUS, members.list_nodes),
            "RevokeNode": self._guarded(pb.RevokeNodeRequest, MANAGE_NODES, members.revoke_node),
            "SetPublication": self._guarded(
                pb.SetPublicationRequest, MANAGE_NODES, members.set_publication
            ),
        }

    def _of_people(self) -> dict[str, Serve]:
        people = self.registry.people
        return {
            "AddPerson": self._guarded(pb.AddPersonRequest, MANAGE_PERSONS, people.add_person),
            "ListPersons": self._guarded(pb.ListPersonsRequest, VIEW_STATUS, people.list_persons),
            "DisablePerson": self._guarded(pb.ChangePersonRequest, MANAGE_PERSONS, people.disable),
            "EnablePerson": self._guarded(pb.ChangePersonRequest, MANAGE_PERSONS, people.enable),
            "ShowPerson": self._guarded(pb.ShowPersonRequest, VIEW_STATUS, people.show_person),
            "RemovePerson": self._guarded(pb.ChangePersonRequest, MANAGE_PERSONS, people.remove),
        }

    def _of_groups(self) -> dict[str, Serve]:
        groups = self.registry.groups
        return {
            "AddGroup": self._guarded(pb.AddGroupRequest, MANAGE_PERSONS, groups.add_group),
            "ListGroups": self._guarded(pb.ListGroupsRequest, VIEW_STATUS, groups.list_groups),
            "GroupMembers": self._guarded(pb.GroupMembersRequest, VIEW_STATUS, groups.members),
            "ChangeMembers": self._guarded(
                pb.ChangeMembersRequest, MANAGE_PERSONS, groups.change_members
            ),
            "RemoveGroup": self._guarded(
                pb.RemoveGroupRequest, MANAGE_PERSONS, groups.remove_group
            ),
        }

    def _of_tokens(self) -> dict[str, Serve]:
        tokens = self.registry.tokens
        return {
            "ListTokens": self._guarded(pb.ListTokensRequest, VIEW_STATUS, tokens.list_tokens),
            "RevokeCredentials": self._guarded(
                pb.ChangePersonRequest, MANAGE_PERSONS, self.credentials.revoke
            ),
            "ListSessions": self._guarded(
                pb.ListSessionsRequest, MANAGE_SESSIONS, self.sessions.list_sessions
            ),
            "EndOpenSessions": self._guarded(
                pb.EndOpenSessionsRequest, MANAGE_SESSIONS, self.sessions.end_sessions
            ),
            "RevokeToken": unary(pb.RevokeTokenRequest, self._revoke_token),
            "ForgetName": unary(pb.ForgetNameRequest, self._forget_name),
        }

    def _of_identities(self) -> dict[str, Serve]:
        return {
            "LinkIdentity": self._guarded(
                sign_in_pb2.LinkIdentityRequest, MANAGE_PERSONS, self.links.link
            ),
            "ListIdentities": self._guarded(
                sign_in_pb2.ListIdentitiesRequest, VIEW_STATUS, self.links.list_links
            ),
            "RemoveIdentity": self._guarded(
                sign_in_pb2.RemoveIdentityRequest, MANAGE_PERSONS, self.links.unlink
            ),
        }

    def _of_agents(self) -> dict[str, Serve]:
        agents = self.registry.agents
        return {
            "AddAgent": self._guarded(pb.AddAgentRequest, MANAGE_PERSONS, agents.add_agent),
            "ListAgents": self._guarded(pb.ListAgentsRequest, VIEW_STATUS, agents.list_agents),
            "RevokeAgent": self._guarded(
                pb.RevokeAgentRequest, MANAGE_PERSONS, agents.revoke_agent
            ),
        }

    def _of_accounts(self) -> dict[str, Serve]:
        accounts = self.accounts
        return {
            "AddAccount": self._guarded(
                account_pb2.AddAccountRequest, MANAGE_PERSONS, accounts.add
            ),
            "ListAccounts": self._guarded(
                account_pb2.ListAccountsRequest, VIEW_STATUS, accounts.list_accounts
            ),
            "RemoveAccount": self._guarded(
                account_pb2.RemoveAccountRequest, MANAGE_PERSONS, accounts.remove
            ),
            "RemovePasskey": self._guarded(
                account_pb2.RemovePasskeyRequest, MANAGE_PERSONS, accounts.remove_passkey
            ),
            "FirstAdministrator": self._guarded(
                account_pb2.FirstAdministratorRequest,
                MANAGE_PERSONS,
                accounts.first_administrator,
            ),
        }

    def _of_proposals(self) -> dict[str, Serve]:
        """Whoever passes on an approval may read policies; who approves is who signed it."""
        pb2, proposals, reviews = policy_change_pb2, self.proposals, self.reviews
        return {
            "ProposePolicy": self._guarded(
                pb2.ProposePolicyRequest, EDIT_POLICY, proposals.propose
            ),
            "ListProposals": self._guarded(
                pb2.ListProposalsRequest, VIEW_POLICY, reviews.list_proposals
            ),
            "ReviewPolicy": self._guarded(pb2.ReviewPolicyRequest, VIEW_POLICY, reviews.review),
            "DecideProposal": self._guarded(
                pb2.DecideProposalRequest, VIEW_POLICY, self.decisions.decide
            ),
            "ActivateProposal": self._guarded(
                pb2.ActivateProposalRequest, EDIT_POLICY, proposals.activate
            ),
        }

    def _guarded(
        self,
        request_type: type[_Request],
        action: str,
        answer: Callable[[_Request, Actor], Awaitable[Message]],
    ) -> Serve:
        async def decided(request: _Request, call: IRpcCall) -> Message:
            actor = await self.operators.authorize(call, action)
            return await self.operators.within_rights(actor, action, answer(request, actor))

        return unary(request_type, decided)

    async def _revoke_token(
        self, request: pb.RevokeTokenRequest, call: IRpcCall
    ) -> pb.RevokeTokenResponse:
        """A token is withdrawn by who may make both sorts of tokens."""
        await self.operators.authorize(call, MANAGE_NODES)
        actor = await self.operators.authorize(call, MANAGE_PERSONS)
        return await self.registry.tokens.revoke(request, actor)

    async def _forget_name(
        self, request: pb.ForgetNameRequest, call: IRpcCall
    ) -> pb.ForgetNameResponse:
        """What records hold is erased by who may erase it one by one."""
        if request.records:
            await self.operators.authorize(call, MANAGE_AUDIT_QUEUE)
        actor = await self.operators.authorize(call, MANAGE_PERSONS)
        return await self.registry.erasure.forget_name(request, actor)

    async def _check(
        self, request: pb.CheckPolicyRequest, call: IRpcCall
    ) -> pb.CheckPolicyResponse:
        """What somebody may do is told to who may read policies and the log (rule R37)."""
        actor = await self.operators.authorize(call, VIEW_POLICY)
        if request.HasField("request") or request.replay:
            await self.operators.authorize(call, VIEW_AUDIT)
        return await self.checks.check(request, actor)

    async def _status(self, request: pb.StatusRequest, actor: Actor) -> pb.StatusResponse:
        return await self.status()
