"""``gate.v1.Identity``: tells the target of a session who makes its requests (rule R34).

A Connector asks for a session that is open at it, and nobody else is answered.  It brings the grant
that Authority signed, which says whose session it is, and on what.  The row of the session is not
signed: whoever can write to the store could put another person into it.  From the row we take
whether the session is still open, and where the record of its opening is, which is held to the
grant.

Of the request only a name is taken, of a person that it asks to be made as.  That needs the action
``actAs``, and that person must be allowed to open the session too.  Both are decided without the
person's source address, which Authority does not keep: a ``permit`` that asks for one does not
apply.  Who is not there and who may not be named get one answer.

A token is a credential: it leaves once its record is durable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import define, frozen

from svc.authority.access.opened import OpenedSession, opened_by_grant
from svc.authority.refusals import RefusalRecords
from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.recorder import Recorder, node, person
from svc.authority.state.tables import DELEGATIONS
from svc.errors import Denied, SvcError, Unavailable
from svc.interfaces.identity import IChainVerifier
from svc.interfaces.kinds import ServedKind
from svc.interfaces.policy import IPolicyEngine
from svc.interfaces.rpc import IRpcCall, RpcService, unary
from svc.interfaces.store import IStore, ITransaction
from svc.messages.identity import TokenAsk, read_token_request
from svc.messages.session import decode_grant
from svc.model.audit.events import CREDENTIAL_ISSUE, IDENTITY_REFUSED
from svc.model.audit.record import rfc3339
from svc.model.canonical import Json
from svc.model.cluster.agent import Agent, Delegation, require_agent
from svc.model.cluster.node import Node
from svc.model.cluster.person import Person, PersonState
from svc.model.cluster.resource import Resource
from svc.model.ids import Entropy, is_agent_id, random_id
from svc.model.policy.access import Decision, EntityUid
from svc.model.policy.requests import context_at, may_act_as, may_open
from svc.model.principal import Role
from svc.model.session.grant import Grant
from svc.model.session.identity import DENIED, Identity, Named
from svc.model.session.session import Session, SessionState
from svc.model.signing import Purpose
from svc.proto.gate.v1 import identity_pb2 as pb
from svc.ratelimit.limits import Budget

PROFILE = "svc-identity"
"""What records call the tokens."""


@frozen
class _Granted:
    """A session: what was granted, and the decision that granted it."""

    grant: Grant
    decision_id: str

    def about(self) -> dict[str, Any]:
        """The fields of its records."""
        return {
            "node_id": self.grant.connector_id,
            "session_uid": self.grant.session_uid,
            "resource_id": self.grant.resource,
            "resource_kind": self.grant.kind,
            "decision_id": self.decision_id,
        }


@define
class SessionIdentities:
    """Answers ``Identity/Token``.

    Attributes:
        engine: Gives the policy in force; None while there is none.
        sign: Makes a token of claims; raises SvcError where no key can.
        asks: Of a Connector.
    """

    cluster: str
    state_cache: ClusterStateCache
    engine: Callable[[], IPolicyEngine | None]
    kinds: Mapping[str, ServedKind]
    verifier: IChainVerifier
    store: IStore
    recorder: Recorder
    refusals: RefusalRecords
    sign: Callable[[Mapping[str, Json]], str]
    asks: Budget
    now: Callable[[], float]
    entropy: Entropy

    def service(self) -> RpcService:
        """The methods, for the RPC server."""
        return RpcService("gate.v1.Identity", {"Token": unary(pb.IdentityRequest, self._token)})

    async def _token(self, request: pb.IdentityRequest, call: IRpcCall) -> pb.IdentityResponse:
        facts = self.verifier.verify(call.peer.chain, {Role.CONNECTOR})
        connector = self.state_cache.node(facts.principal)
        self.asks.spend(node(connector.id))
        ask = read_token_request(request)
        return pb.IdentityResponse(token=await self.token(ask, connector))

    async def token(self, ask: TokenAsk, connector: Node) -> str:
        """A token for the target of a session that is open at this Connector.

        Raises:
            SvcError: there is none to be had; a refusal is recorded first.
        """
        grant = self._granted(ask, connector)
        session, opened, delegated = await self.store.read(
            "session of an identity", lambda tx: self._found(tx, grant)
        )
        if session is None or opened is None:
            raise _unknown()
        granted = _Granted(grant, opened.decision_id)
        try:
            _require_open(session)
            identity, decision = self._identity(ask, granted, delegated)
        except SvcError as refusal:
            await self._record_refusal(granted, refusal)
            raise
        claims = identity.claims(random_id(self.entropy), self.now())
        token = self.sign(claims)
        await self._record(granted, identity, claims, decision)
        return token

    def _granted(self, ask: TokenAsk, connector: Node) -> Grant:
        """Our own word of what the session is."""
        self.verifier.verify_signed(ask.grant, Purpose.GRANT)
        grant = decode_grant(ask.grant.payload)
        if (grant.cluster, grant.connector_id) != (self.cluster, connector.id):
            raise _unknown()
        return grant

    def _found(
        self, tx: ITransaction, grant: Grant
    ) -> tuple[Session | None, OpenedSession | None, tuple[Delegation, ...]]:
        """The session; of an agent's also for whom it may act, as signed records say."""
        session, opened = tx.sessions.get(grant.session_uid), opened_by_grant(tx, grant)
        if not is_agent_id(grant.person_id):
            return session, opened, ()
        rows = self.state_cache.rows(tx)
        theirs = (
            one for one in tx.delegations.unexpired(self.now()) if one.agent_id == grant.person_id
        )
        return (
            session,
            opened,
            tuple(one for one in theirs if rows.is_signed(DELEGATIONS.entry_of(one))),
        )

    def _identity(
        self, ask: TokenAsk, granted: _Granted, delegated: tuple[Delegation, ...]
    ) -> tuple[Identity, Decision | None]:
        """Who makes the requests, and the decision about whom they may be made as."""
        state, grant = self.state_cache.state, granted.grant
        asker, resource = self._asker(grant.person_id), state.catalog.get(grant.resource)
        if resource is None or resource.kind != grant.kind or not _is_same(resource, grant):
            raise Denied("the resource was changed", reason="resource_changed")
        acts_as, decision = None, None
        if ask.named and ask.named != asker.name:
            acts_as, decision = self._acting(ask.named, grant, delegated)
        identity = Identity(
            cluster=self.cluster,
            audience=resource.identity,
            person=_named(asker),
            session_uid=grant.session_uid,
            decision_id=granted.decision_id,
            audit_hash=grant.audit_hash,
            acts_as=None if acts_as is None else _named(acts_as),
        )
        return identity, decision

    def _asker(self, id: str) -> Person | Agent:
        """Whose session it is, if they are in force."""
        state = self.state_cache.state
        if is_agent_id(id):
            agent = state.agents.get(id)
            return require_agent(agent, None if agent is None else state.people.get(agent.owner))
        person = state.people.get(id)
        if person is None or person.state is not PersonState.ACTIVE:
            raise Denied("the person was revoked", reason="revoked_person")
        return person

    def _acting(
        self, name: str, grant: Grant, delegated: tuple[Delegation, ...]
    ) -> tuple[Person, Decision]:
        """The person of this name, if the session's person may act as that one.

        Raises:
            Denied: it may not, or nobody has this name.
        """
        engine, kind = self.engine(), self.kinds.get(grant.kind)
        if engine is None:
            raise Unavailable("no policy is in force", reason="policy_unavailable")
        people = self.state_cache.state.people.values()
        found = [one for one in people if one.name == name and one.state is PersonState.ACTIVE]
        if len(found) == 1 and kind is not None:
            (named,) = found
            self._require_delegated(named, grant, kind, delegated)
            context = context_at(self.now())
            target = EntityUid(kind.terms.entity_type, grant.resource)
            decision = engine.decide(may_act_as(grant.person_id, named.id, context))
            opens = may_open(kind.request_kind, kind.terms.open_action, named.id, target, context)
            if decision.allowed and engine.decide(opens).allowed:
                return named, decision
        raise Denied("no request may be made as this person", reason=DENIED)

    def _require_delegated(
        self, named: Person, grant: Grant, kind: ServedKind, delegated: tuple[Delegation, ...]
    ) -> None:
        """An agent needs a delegation besides what policy permits."""
        action, now = kind.terms.open_action, self.now()
        if is_agent_id(grant.person_id) and not any(
            one.covers(named.id, action, now) for one in delegated
        ):
            raise Denied("no request may be made as this person", reason=DENIED)

    async def _record(
        self,
        granted: _Granted,
        identity: Identity,
        claims: Mapping[str, Json],
        decision: Decision | None,
    ) -> None:
        decided: dict[str, Any] = {}
        if decision is not None:
            decided = {
                "decision": "allow",
                "policies": decision.policies,
                "policy_version": decision.policy_version,
            }
        grant, exp = granted.grant, claims["exp"]
        assert isinstance(exp, int)
        details: dict[str, Json] = {
            "profile": PROFILE,
            "serial": claims["jti"],
            "not_after": rfc3339(exp),
            "person_id": grant.person_id,
            "connector_id": grant.connector_id,
        }
        if identity.acts_as is not None:
            details["acts_as"] = identity.acts_as.id

        def write(tx: ITransaction) -> None:
            _require_open(tx.sessions.get(grant.session_uid))
            self.recorder.append(
                tx,
                CREDENTIAL_ISSUE,
                person(grant.person_id),
                **granted.about(),
                **decided,
                details=details,
            )

        await self.store.run("record an identity", write)

    async def _record_refusal(self, granted: _Granted, refusal: SvcError) -> None:
        grant = granted.grant

        def write(tx: ITransaction) -> None:
            self.recorder.append(
                tx,
                IDENTITY_REFUSED,
                person(grant.person_id),
                **granted.about(),
                decision="deny",
                reason=refusal.reason,
                details={"connector_id": grant.connector_id},
            )

        await self.refusals.write(node(grant.connector_id), "record a refused identity", write)


def _named(one: Person | Agent) -> Named:
    return Named(one.id, one.name, one.groups if isinstance(one, Person) else ())


def _is_same(resource: Resource, grant: Grant) -> bool:
    """Not another one of the same name; a grant of before has no identity to compare."""
    return grant.resource_identity in ("", resource.identity)


def _require_open(session: Session | None) -> None:
    """Also not of a session that an operator ends."""
    if session is None or session.state is not SessionState.OPEN or session.end_reason:
        raise Denied("the session is over", reason="session_over")


def _unknown() -> Denied:
    return Denied("the session is none of this Connector's", reason="unknown_session")
