"""``gate.v1.Identity``: tells the target of a session who makes its requests (rule R34).

A Connector asks for a session that is open at it, and nobody else is answered.  What the target is
told is Authority's own knowledge; of the request only a name is taken, of a person that it asks to
be made as.  That needs the action ``actAs``, and that person must be allowed to open the session
too.  Who is not there and who may not be named get one answer.

A token is a credential: it leaves once its record is durable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import define

from svc.authority.refusals import RefusalRecords
from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.recorder import Recorder, node, person
from svc.errors import Denied, SvcError, Unavailable
from svc.interfaces.identity import IChainVerifier
from svc.interfaces.kinds import ServedKind
from svc.interfaces.policy import IPolicyEngine
from svc.interfaces.rpc import IRpcCall, RpcService, unary
from svc.interfaces.store import IStore, ITransaction
from svc.messages.identity import TokenAsk, read_token_request
from svc.model.audit.events import CREDENTIAL_ISSUE, IDENTITY_REFUSED
from svc.model.audit.record import rfc3339
from svc.model.canonical import Json
from svc.model.cluster.node import Node
from svc.model.cluster.person import Person, PersonState
from svc.model.ids import Entropy, random_id
from svc.model.policy.access import Decision, EntityUid
from svc.model.policy.requests import context_at, may_act_as, may_open
from svc.model.principal import Role
from svc.model.session.identity import DENIED, Identity, Named
from svc.model.session.session import Session, SessionState
from svc.proto.gate.v1 import identity_pb2 as pb
from svc.ratelimit.limits import Budget

PROFILE = "svc-identity"
"""What records call the tokens."""


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
        session = await self.store.read(
            "session of an identity", lambda tx: tx.sessions.get(ask.session_uid)
        )
        if session is None or session.connector_id != connector.id:
            raise Denied("the session is none of this Connector's", reason="unknown_session")
        try:
            identity, decision = self._identity(ask, session)
        except SvcError as refusal:
            await self._record_refusal(session, refusal)
            raise
        claims = identity.claims(random_id(self.entropy), self.now())
        token = self.sign(claims)
        await self._record(session, identity, claims, decision)
        return token

    def _identity(self, ask: TokenAsk, session: Session) -> tuple[Identity, Decision | None]:
        """Who makes the requests, and the decision about whom they may be made as."""
        state = self.state_cache.state
        if session.state is not SessionState.OPEN:
            raise Denied("the session is over", reason="session_over")
        asker, resource = (
            state.people.get(session.person_id),
            state.catalog.get(session.resource_id),
        )
        if asker is None or asker.state is not PersonState.ACTIVE:
            raise Denied("the person was revoked", reason="revoked_person")
        if resource is None or resource.kind != session.kind:
            raise Denied("the resource was changed", reason="resource_changed")
        acts_as, decision = None, None
        if ask.named and ask.named != asker.name:
            acts_as, decision = self._acting(ask.named, session)
        identity = Identity(
            cluster=self.cluster,
            audience=resource.identity,
            person=_named(asker),
            session_uid=session.uid,
            decision_id=session.decision_id,
            acts_as=None if acts_as is None else _named(acts_as),
        )
        return identity, decision

    def _acting(self, name: str, session: Session) -> tuple[Person, Decision]:
        """The person of this name, if the session's person may act as that one.

        Raises:
            Denied: it may not, or nobody has this name.
        """
        engine, kind = self.engine(), self.kinds.get(session.kind)
        if engine is None:
            raise Unavailable("no policy is in force", reason="policy_unavailable")
        people = self.state_cache.state.people.values()
        found = [one for one in people if one.name == name and one.state is PersonState.ACTIVE]
        if len(found) == 1 and kind is not None:
            (named,) = found
            context = context_at(self.now())
            target = EntityUid(kind.terms.entity_type, session.resource_id)
            decision = engine.decide(may_act_as(session.person_id, named.id, context))
            opens = may_open(kind.request_kind, kind.terms.open_action, named.id, target, context)
            if decision.allowed and engine.decide(opens).allowed:
                return named, decision
        raise Denied("no request may be made as this person", reason=DENIED)

    async def _record(
        self,
        session: Session,
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
        exp = claims["exp"]
        assert isinstance(exp, int)
        details: dict[str, Json] = {
            "profile": PROFILE,
            "serial": claims["jti"],
            "not_after": rfc3339(exp),
            "person_id": session.person_id,
            "connector_id": session.connector_id,
        }
        if identity.acts_as is not None:
            details["acts_as"] = identity.acts_as.id

        def write(tx: ITransaction) -> None:
            now = tx.sessions.get(session.uid)
            if now is None or now.state is not SessionState.OPEN:
                raise Denied("the session is over", reason="session_over")
            self.recorder.append(
                tx,
                CREDENTIAL_ISSUE,
                person(session.person_id),
                **_about(session),
                **decided,
                details=details,
            )

        await self.store.run("record an identity", write)

    async def _record_refusal(self, session: Session, refusal: SvcError) -> None:
        def write(tx: ITransaction) -> None:
            self.recorder.append(
                tx,
                IDENTITY_REFUSED,
                person(session.person_id),
                **_about(session),
                decision="deny",
                reason=refusal.reason,
                details={"connector_id": session.connector_id},
            )

        await self.refusals.write(node(session.connector_id), "record a refused identity", write)


def _named(one: Person) -> Named:
    return Named(one.id, one.name, one.groups)


def _about(session: Session) -> dict[str, Any]:
    return {
        "node_id": session.connector_id,
        "session_uid": session.uid,
        "resource_id": session.resource_id,
        "resource_kind": session.kind,
        "decision_id": session.decision_id,
    }
