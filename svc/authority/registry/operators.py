"""Who may administer the gateway (rules R18, R19).

There are two ways here, and the policy decides every action on both.  The
control socket is the host's: its caller is ``Operator::"local:<uid>"``, the uid
asked of the kernel.  The admin listener takes a person's certificate, from
anywhere: its caller is that person, ``User::"<id>"``, with the groups that the
person has at this moment.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from attrs import define, evolve, field, frozen
from twisted.logger import Logger

from svc.authority.refusals import RefusalRecords
from svc.authority.registry.rights import RightsRefused
from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.recorder import MAX_POLICIES, Recorder, operator, person
from svc.authority.state.tables import SignedRows
from svc.errors import Denied, LeaseLost, Unauthenticated, Unavailable
from svc.interfaces.identity import IChainVerifier
from svc.interfaces.policy import IPolicyEngine
from svc.interfaces.rpc import IRpcCall, Peer
from svc.interfaces.store import IStore, ITransaction
from svc.model.audit.events import OPERATOR_BREAK_GLASS, OPERATOR_REFUSED
from svc.model.audit.record import NOTHING, Actor
from svc.model.canonical import Json
from svc.model.certificate import CertificateFacts
from svc.model.cluster.account import LOCAL_ISSUER
from svc.model.cluster.person import IssuedCertificate, Person, require_active
from svc.model.ids import random_id
from svc.model.policy.access import AccessRequest, Decision, EntityUid
from svc.model.policy.requests import may_administer, user
from svc.model.policy.rules import PolicyRules
from svc.model.principal import Role
from svc.model.session.ending import REVOKED_CERTIFICATE

_Answer = TypeVar("_Answer")

_log = Logger(namespace="svc_authority")

EDIT_POLICY = "editPolicy"
VIEW_POLICY = "viewPolicy"

STANDING_BY = "standing_by"
"""Why refusals are in a summary alone: the Authority that refused them did not lead."""

BREAK_GLASS = frozenset({EDIT_POLICY, VIEW_POLICY})
"""What the break-glass principals of the configuration may do whatever the policy says."""


@frozen
class AdminCaller:
    """Who calls a method of ``gate.v1.Admin``.

    Attributes:
        actor: As records name the caller.
        principal: As the policy names it.
        may_rescue: Whether it may set a policy while none is in force.
        details: What a record of its refusal says besides.
        factor_at: When it presented a second factor; None where that is not known.
        is_at_standby: The Authority that it called does not lead, and answers this all the same.
    """

    actor: Actor
    principal: EntityUid
    may_rescue: bool = False
    details: Mapping[str, Json] = NOTHING
    factor_at: float | None = None
    is_at_standby: bool = False


SIGN_IN_AGAIN = "without a recent second factor; sign in again, then repeat the command: svc login"
"""The end of a refusal that a new sign-in would turn."""

FACTOR_UNKNOWN = (
    "without a recent second factor, and your sign-in told of none; sign in with one: svc login; "
    "where you did, your provider does not tell: ask your operator"
)
"""The end of one that only a sign-in of another sort would turn."""


def for_want_of_factor(*, is_known: bool) -> str:
    """The end of a refusal for want of a recent second factor.

    Args:
        is_known: Whether it is known when the person presented one.  It never is of those whose
            provider says nothing of it, so that another sign-in would change nothing.
    """
    return SIGN_IN_AGAIN if is_known else FACTOR_UNKNOWN


@define
class Operators:
    """Decides administrative actions.

    Attributes:
        own_uid: The uid this process runs as.  It and root alone may connect to the control
            socket; and they alone may set a policy while none is in force, so that a
            store whose policy cannot be loaded is not out of reach.
        rules: Name the break-glass principals, who get at policies whatever the policy says.
    """

    cluster: str
    own_uid: int
    engine: Callable[[], IPolicyEngine | None]
    verifier: IChainVerifier
    state_cache: ClusterStateCache
    store: IStore
    recorder: Recorder
    refusals: RefusalRecords
    now: Callable[[], float]
    rules: PolicyRules = field(factory=PolicyRules)

    def admit(self, method: str, peer: Peer) -> None:
        """Refuse a connection of any other user of this machine to the control socket."""
        if peer.uid not in (0, self.own_uid):
            raise Unauthenticated("only the owner of the control socket and root may use it")

    def admit_standing_by(self, method: str, peer: Peer) -> object:
        """As :meth:`admit`, of an Authority that does not lead; what :meth:`authorize` knows it by.

        Raises:
            Unavailable: it has not read the policy yet, by which it has to decide.
        """
        self.admit(method, peer)
        if self.engine() is None:
            raise Unavailable("this Authority has not read the policy yet; try again")
        return STANDING_BY

    def admit_person(self, method: str, peer: Peer) -> None:
        """Refuse a call on the admin listener of whoever is not an active person now (R13).

        Raises:
            SvcError: no certificate, not a person's, expired, revoked; or the person is disabled.
        """
        self._person(peer)

    async def authorize(self, call: IRpcCall, action: str) -> Actor:
        """Who is behind this call, if the policy lets them do *action*.

        Raises:
            Denied: it does not; the refusal is on record by then, or counted.
        """
        caller = await self._caller(call.peer)
        is_at_standby = call.caller == STANDING_BY
        return await self._authorized(evolve(caller, is_at_standby=is_at_standby), action)

    async def authorize_person(
        self, person_id: str, action: str, factor_at: float | None = None
    ) -> Actor:
        """The person, whom the caller has authenticated, if the policy lets them do *action*.

        Raises:
            Denied: it does not; the refusal is on record by then, or counted.
        """
        return await self._authorized(_person_caller(person_id, factor_at), action)

    def allows(self, person_id: str, action: str, factor_at: float | None = None) -> bool:
        """Whether the policy lets a person do *action*; nothing is recorded.

        Args:
            factor_at: When the person presented a second factor; None where that is not known.
        """
        decision = self._decided(_person_caller(person_id, factor_at), action)
        return decision is not None and decision.allowed

    def _decided(self, caller: AdminCaller, action: str) -> Decision | None:
        engine = self.engine()
        return None if engine is None else engine.decide(self._asked(caller, action))

    def _wants_factor(self, caller: AdminCaller, action: str) -> bool:
        """Whether the policy would allow what it denied, had a person just signed in."""
        if caller.actor.kind != "person":
            return False
        decision = self._decided(evolve(caller, factor_at=self.now()), action)
        return decision is not None and decision.allowed

    async def _authorized(self, caller: AdminCaller, action: str) -> Actor:
        decision = self._decided(caller, action)
        if decision is None:
            allowed = caller.may_rescue and action == EDIT_POLICY
        else:
            allowed = decision.allowed
        if not allowed and await self._breaks_glass(caller, action, decision):
            return caller.actor
        if not allowed:
            decision_id = await self._refused(caller, action, decision)
            is_wanted = self._wants_factor(caller, action)
            why = for_want_of_factor(is_known=caller.factor_at is not None)
            recent = f" {why}" if is_wanted else ""
            raise Denied(
                f"the policy does not let {_called(caller)} {action}{recent}",
                reason="denied",
                details={"decision_id": decision_id},
            )
        return caller.actor

    def decide(self, engine: IPolicyEngine | None, uid: int, action: str) -> Decision | None:
        """The policy's answer for a local operator; None while no policy is in force."""
        return None if engine is None else engine.decide(self.request(uid, action))

    def request(self, uid: int, action: str) -> AccessRequest:
        """What the policy is asked for a local operator."""
        return self._asked(_local(uid), action)

    def _asked(self, caller: AdminCaller, action: str) -> AccessRequest:
        return may_administer(
            caller.principal, action, self.cluster, self.now(), factor_at=caller.factor_at
        )

    async def _caller(self, peer: Peer) -> AdminCaller:
        if peer.uid is not None:
            return _local(peer.uid)
        facts, _ = self._person(peer)
        return await self.store.read("an administrator", lambda tx: self._standing(tx, facts))

    def _person(self, peer: Peer) -> tuple[CertificateFacts, Person]:
        if not peer.chain:
            raise Unauthenticated("a person's certificate is required; sign in with `svc login`")
        facts = self.verifier.verify(peer.chain, {Role.USER})
        if facts.sha256 in self.state_cache.state.revoked_certificates:
            raise _revoked()
        return facts, self.state_cache.person(facts.principal)

    def _standing(self, tx: ITransaction, facts: CertificateFacts) -> AdminCaller:
        """The person, as the signed rows say it at this moment.

        A certificate that is in no row was not issued by this cluster's Authority.
        """
        rows = self.state_cache.rows(tx)
        issued = rows.certificate(facts.sha256)
        if issued is None or issued.revoked_at is not None:
            raise _revoked()
        known = require_active(rows.person(facts.principal.id))
        return AdminCaller(
            actor=person(known.id),
            principal=user(known.id),
            factor_at=facts.factor_at if facts.factor_at else factor_at(rows, issued),
        )

    async def _breaks_glass(
        self, caller: AdminCaller, action: str, decision: Decision | None
    ) -> bool:
        """Whether somebody may do what the policy refuses; the use is on record by then (R17)."""
        actor = caller.actor
        if action not in BREAK_GLASS or not self.rules.may_break_glass(actor.kind, actor.id):
            return False
        _log.warn("break-glass access", actor=actor.id, action=action)
        await self.store.run(
            "let in by break-glass",
            lambda tx: self.recorder.append(
                tx,
                OPERATOR_BREAK_GLASS,
                actor,
                cedar_action=action,
                decision_id=random_id(self.recorder.entropy),
                policies=() if decision is None else decision.policies[:MAX_POLICIES],
                policy_version=None if decision is None else decision.policy_version,
                request=None if decision is None else decision.request,
                reason="no_policy" if decision is None else "denied",
                details=caller.details,
            ),
        )
        return True

    async def within_rights(self, actor: Actor, action: str, change: Awaitable[_Answer]) -> _Answer:
        """What *change* gives back.

        Raises:
            RightsRefused: the policy lets *actor* do *action*, but not to this person; the refusal
                is on record by then.
        """
        try:
            return await change
        except RightsRefused as refusal:
            await self._refused_change(actor, action, refusal)
            raise

    async def _refused_change(self, actor: Actor, action: str, refusal: RightsRefused) -> None:
        _log.warn("operator refused", caller=actor.id, action=action, reason=refusal.reason)
        await self.refusals.write(
            actor,
            "refuse a change of rights",
            lambda tx: self.recorder.append(
                tx,
                OPERATOR_REFUSED,
                actor,
                cedar_action=action,
                decision="deny",
                decision_id=random_id(self.recorder.entropy),
                reason=refusal.reason,
            ),
        )

    async def _refused(self, caller: AdminCaller, action: str, decision: Decision | None) -> str:
        _log.warn("operator refused", caller=caller.actor.id, action=action)
        decision_id = random_id(self.recorder.entropy)
        await self._recorded(
            caller,
            lambda tx: self.recorder.append(
                tx,
                OPERATOR_REFUSED,
                caller.actor,
                cedar_action=action,
                decision="deny" if decision is None else decision.decision,
                decision_id=decision_id,
                policies=() if decision is None else decision.policies[:MAX_POLICIES],
                policy_version=None if decision is None else decision.policy_version,
                request=None if decision is None else decision.request,
                reason="no_policy" if decision is None else "denied",
                details=caller.details,
            ),
        )
        return decision_id

    async def _recorded(
        self, caller: AdminCaller, record: Callable[[ITransaction], object]
    ) -> None:
        """Record a refusal, or count it, also where an Authority answers that does not lead.

        Then it may not write.  Nothing was granted, and the caller is to hear why.

        Raises:
            LeaseLost: it led when the call began, and does no longer.
        """
        try:
            await self.refusals.write(caller.actor, "refuse an operator", record)
        except LeaseLost:
            if not caller.is_at_standby:
                raise
            self.refusals.refusal_counter.add(caller.actor, STANDING_BY)


def _local(uid: int) -> AdminCaller:
    return AdminCaller(
        actor=operator(uid),
        principal=EntityUid("Operator", f"local:{uid}"),
        may_rescue=True,
        details={"local_uid": uid},
    )


def factor_at(rows: SignedRows, issued: IssuedCertificate) -> float | None:
    """When a second factor was presented at the sign-in that a certificate came by.

    An account of ours takes one at every sign-in; what a provider asked for, it does not say.
    """
    found = rows.sign_in(issued.sign_in_id) if issued.sign_in_id else None
    link = None if found is None else rows.identity(found.identity_id)
    if found is None or link is None or link.issuer != LOCAL_ISSUER:
        return None
    return found.auth_time


def _person_caller(person_id: str, factor_at: float | None) -> AdminCaller:
    return AdminCaller(actor=person(person_id), principal=user(person_id), factor_at=factor_at)


def _called(caller: AdminCaller) -> str:
    return "you" if caller.actor.kind == "person" else "this operator"


def _revoked() -> Denied:
    return Denied(
        "the certificate was revoked; sign in again with `svc login`", reason=REVOKED_CERTIFICATE
    )
