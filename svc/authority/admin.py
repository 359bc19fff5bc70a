"""``gate.v1.Admin``: operators' commands, and the table of its methods.

Every change is one transaction with its audit record.  What each does stands
in the module of its subject; here is only which action each needs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from attrs import define, frozen
from google.protobuf.message import Message

from svc.authority.accounts.admin import AccountAdmin
from svc.authority.discovery.scopes import ScopeAdmin
from svc.authority.distribution.admin import RootAdmin
from svc.authority.ingest.admin import QueueAdmin
from svc.authority.ingest.erase import RequestErasure
from svc.authority.policy.admin import PolicyAdmin
from svc.authority.policy.check import PolicyCheck
from svc.authority.policy.proposed.decisions import PolicyDecisions
from svc.authority.policy.proposed.proposals import PolicyProposals
from svc.authority.policy.proposed.review import PolicyReview
from svc.authority.recordings.admin import RecordingAdmin
from svc.authority.registry.admin import RegistryAdmin
from svc.authority.registry.catalog import CatalogAdmin
from svc.authority.registry.credentials import CredentialAdmin
from svc.authority.registry.epochs import EpochAdmin
from svc.authority.registry.listing import CatalogListing
from svc.authority.registry.operators import EDIT_POLICY, VIEW_POLICY, Operators
from svc.authority.sessions.admin import SessionAdmin
from svc.authority.signin.links import IdentityLinks
from svc.interfaces.rpc import IRpcCall, RpcService, Serve, unary
from svc.model.audit.record import Actor
from svc.proto.gate.v1 import account_pb2, policy_change_pb2, recording_pb2, root_pb2, sign_in_pb2
from svc.proto.gate.v1 import admin_pb2 as pb

_Request = TypeVar("_Request", bound=Message)

VIEW_STATUS = "viewStatus"
VIEW_AUDIT = "viewAudit"
MANAGE_NODES = "manageNodes"
MANAGE_PERSONS = "managePersons"
MANAGE_RESOURCES = "manageResources"
MANAGE_SESSIONS = "manageSessions"
MANAGE_AUDIT_QUEUE = "manageAuditQueue"
VIEW_RECORDINGS = "viewRecordings"
MANAGE_RECORDINGS = "manageRecordings"
ROTATE_CA = "rotateCA"


@frozen
class ActionGuard:
    """Serves methods to whom the policy lets do one action."""

    operators: Operators
    action: str

    def __call__(
        self,
        request_type: type[_Request],
        answer: Callable[[_Request, Actor], Awaitable[Message]],
    ) -> Serve:
        """A method that *answer* answers."""

        async def decided(request: _Request, call: IRpcCall) -> Message:
            actor = await self.operators.authorize(call, self.action)
            return await self.operators.within_rights(actor, self.action, answer(request, actor))

        return unary(request_type, decided)


@define
class AdminService:
    """Binds each method to the action that the policy is asked for."""

    operators: Operators
    registry: RegistryAdmin
    sessions: SessionAdmin
    credentials: CredentialAdmin
    catalog: CatalogAdmin
    listing: CatalogListing
    scopes: ScopeAdmin
    epochs: EpochAdmin
    policies: PolicyAdmin
    checks: PolicyCheck
    proposals: PolicyProposals
    decisions: PolicyDecisions
    reviews: PolicyReview
    outbox: QueueAdmin
    erasure: RequestErasure
    links: IdentityLinks
    accounts: AccountAdmin
    recordings: RecordingAdmin
    roots: RootAdmin
    records: Callable[[pb.ShowRecordsRequest, Actor], Awaitable[pb.ShowRecordsResponse]]
    status: Callable[[], Awaitable[pb.StatusResponse]]

    def service(self) -> RpcService:
        """The methods, for the RPC server."""
        see, change, edit, view, settle, read = (
            self._for(VIEW_STATUS),
            self._for(MANAGE_RESOURCES),
            self._for(EDIT_POLICY),
            self._for(VIEW_POLICY),
            self._for(MANAGE_AUDIT_QUEUE),
            self._for(VIEW_AUDIT),
        )
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
                **self._of_scopes(),
                **self._of_recordings(),
                **self._of_roots(),
                "Status": see(pb.StatusRequest, self._status),
                "AddResource": change(pb.AddResourceRequest, catalog.add),
                "ListResources": see(pb.ListResourcesRequest, self.listing.list_resources),
                "AssignResource": change(pb.AssignResourceRequest, catalog.assign),
                "SetResource": change(pb.SetResourceRequest, catalog.set),
                "MoveResources": change(pb.MoveResourcesRequest, catalog.move),
                "RemoveResource": change(pb.RemoveResourceRequest, catalog.remove),
                "ListBindings": see(pb.ListBindingsRequest, self.listing.list_bindings),
                "SetPolicy": edit(pb.SetPolicyRequest, policies.set),
                "ShowPolicy": view(pb.ShowPolicyRequest, policies.show),
                "CheckPolicy": unary(pb.CheckPolicyRequest, self._check),
                "PolicyHistory": view(pb.PolicyHistoryRequest, policies.history),
                "ReleaseRow": settle(pb.ReleaseRowRequest, outbox.release),
                "DiscardRow": settle(pb.DiscardRowRequest, outbox.discard),
                "ShowRecords": read(pb.ShowRecordsRequest, self.records),
                "ListQueue": read(pb.ListQueueRequest, outbox.list_rows),
                "EraseValue": settle(pb.EraseValueRequest, self.erasure.erase),
            },
        )

    def _of_nodes(self) -> dict[str, Serve]:
        change, see = self._for(MANAGE_NODES), self._for(VIEW_STATUS)
        members = self.registry.nodes
        return {
            "AddNode": change(pb.AddNodeRequest, members.add_node),
            "ExpectNode": change(pb.ExpectNodeRequest, members.expect_node),
            "ListExpected": see(pb.ListExpectedRequest, members.expected.list_expected),
            "WithdrawExpected": change(pb.WithdrawExpectedRequest, members.expected.withdraw),
            "ListNodes": see(pb.ListNodesRequest, members.list_nodes),
            "RevokeNode": change(pb.RevokeNodeRequest, members.revoke_node),
            "SetPublication": change(pb.SetPublicationRequest, members.set_publication),
        }

    def _of_people(self) -> dict[str, Serve]:
        change, see = self._for(MANAGE_PERSONS), self._for(VIEW_STATUS)
        people = self.registry.people
        return {
            "AddPerson": change(pb.AddPersonRequest, people.add_person),
            "ListPersons": see(pb.ListPersonsRequest, people.list_persons),
            "DisablePerson": change(pb.ChangePersonRequest, people.disable),
            "EnablePerson": change(pb.ChangePersonRequest, people.enable),
            "ShowPerson": see(pb.ShowPersonRequest, people.show_person),
            "RemovePerson": change(pb.ChangePersonRequest, people.remove),
        }

    def _of_groups(self) -> dict[str, Serve]:
        change, see = self._for(MANAGE_PERSONS), self._for(VIEW_STATUS)
        groups = self.registry.groups
        return {
            "AddGroup": change(pb.AddGroupRequest, groups.add_group),
            "ListGroups": see(pb.ListGroupsRequest, groups.list_groups),
            "GroupMembers": see(pb.GroupMembersRequest, groups.members),
            "ChangeMembers": change(pb.ChangeMembersRequest, groups.change_members),
            "RemoveGroup": change(pb.RemoveGroupRequest, groups.remove_group),
        }

    def _of_tokens(self) -> dict[str, Serve]:
        see, persons, sessions = (
            self._for(VIEW_STATUS),
            self._for(MANAGE_PERSONS),
            self._for(MANAGE_SESSIONS),
        )
        tokens = self.registry.tokens
        return {
            "ListTokens": see(pb.ListTokensRequest, tokens.list_tokens),
            "RevokeCredentials": persons(pb.ChangePersonRequest, self.credentials.revoke),
            "ListSessions": sessions(pb.ListSessionsRequest, self.sessions.list_sessions),
            "EndOpenSessions": sessions(pb.EndOpenSessionsRequest, self.sessions.end_sessions),
            "RevokeToken": unary(pb.RevokeTokenRequest, self._revoke_token),
            "ForgetName": unary(pb.ForgetNameRequest, self._forget_name),
        }

    def _of_identities(self) -> dict[str, Serve]:
        change, see = self._for(MANAGE_PERSONS), self._for(VIEW_STATUS)
        return {
            "LinkIdentity": change(sign_in_pb2.LinkIdentityRequest, self.links.link),
            "ListIdentities": see(sign_in_pb2.ListIdentitiesRequest, self.links.list_links),
            "RemoveIdentity": change(sign_in_pb2.RemoveIdentityRequest, self.links.unlink),
        }

    def _of_agents(self) -> dict[str, Serve]:
        change, see = self._for(MANAGE_PERSONS), self._for(VIEW_STATUS)
        agents = self.registry.agents
        return {
            "AddAgent": change(pb.AddAgentRequest, agents.add_agent),
            "ListAgents": see(pb.ListAgentsRequest, agents.list_agents),
            "RevokeAgent": change(pb.RevokeAgentRequest, agents.revoke_agent),
        }

    def _of_accounts(self) -> dict[str, Serve]:
        change, see = self._for(MANAGE_PERSONS), self._for(VIEW_STATUS)
        accounts = self.accounts
        return {
            "AddAccount": change(account_pb2.AddAccountRequest, accounts.add),
            "ListAccounts": see(account_pb2.ListAccountsRequest, accounts.list_accounts),
            "RemoveAccount": change(account_pb2.RemoveAccountRequest, accounts.remove),
            "RemovePasskey": change(account_pb2.RemovePasskeyRequest, accounts.remove_passkey),
            "FirstAdministrator": change(
                account_pb2.FirstAdministratorRequest, accounts.first_administrator
            ),
        }

    def _of_proposals(self) -> dict[str, Serve]:
        """Whoever passes on an approval may read policies; who approves is who signed it."""
        edit, view = self._for(EDIT_POLICY), self._for(VIEW_POLICY)
        pb2, proposals, reviews = policy_change_pb2, self.proposals, self.reviews
        return {
            "ProposePolicy": edit(pb2.ProposePolicyRequest, proposals.propose),
            "ListProposals": view(pb2.ListProposalsRequest, reviews.list_proposals),
            "ReviewPolicy": view(pb2.ReviewPolicyRequest, reviews.review),
            "DecideProposal": view(pb2.DecideProposalRequest, self.decisions.decide),
            "ActivateProposal": edit(pb2.ActivateProposalRequest, proposals.activate),
        }

    def _of_scopes(self) -> dict[str, Serve]:
        change, see = self._for(MANAGE_RESOURCES), self._for(VIEW_STATUS)
        scopes = self.scopes
        return {
            "SetScope": change(pb.SetScopeRequest, scopes.set_scope),
            "ListScopes": see(pb.ListScopesRequest, scopes.list_scopes),
            "ShowScope": see(pb.ShowScopeRequest, scopes.show_scope),
            "RemoveScope": change(pb.RemoveScopeRequest, scopes.remove_scope),
            "EpochStatus": see(pb.EpochStatusRequest, self.epochs.status),
            "ActivateEpoch": change(pb.ActivateEpochRequest, self.epochs.activate),
        }

    def _of_recordings(self) -> dict[str, Serve]:
        view, change = self._for(VIEW_RECORDINGS), self._for(MANAGE_RECORDINGS)
        pb2, recordings = recording_pb2, self.recordings
        return {
            "ListRecordings": view(pb2.ListRecordingsRequest, recordings.list_recordings),
            "ReadRecording": view(pb2.ReadRecordingRequest, recordings.read),
            "RemoveRecording": change(pb2.RemoveRecordingRequest, recordings.remove),
        }

    def _of_roots(self) -> dict[str, Serve]:
        change, see = self._for(ROTATE_CA), self._for(VIEW_STATUS)
        pb2, roots, rotation = root_pb2, self.roots, self.roots.rotation
        return {
            "RootStatus": see(pb2.RootStatusRequest, roots.status),
            "PrepareRoot": change(pb2.PrepareRootRequest, roots.prepare),
            "AckRoot": change(pb2.AckRootRequest, roots.ack),
            "ActivateRoot": change(pb2.ActivateRootRequest, roots.activate),
            "CancelRoot": change(pb2.CancelRootRequest, roots.cancel),
            "WithdrawOwner": change(pb2.WithdrawOwnerRequest, roots.withdraw),
            "ReadmitOwner": change(pb2.ReadmitOwnerRequest, roots.readmit),
            "RotationStatus": see(pb2.RotationStatusRequest, rotation.status),
            "PauseRotation": change(pb2.PauseRotationRequest, rotation.pause),
            "ResumeRotation": change(pb2.ResumeRotationRequest, rotation.resume),
        }

    def _for(self, action: str) -> ActionGuard:
        return ActionGuard(self.operators, action)

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
