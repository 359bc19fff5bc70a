"""The gate: the Proxy's own decision on each request, from its snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from attrs import define, frozen

from svc.errors import SvcError
from svc.interfaces.gating import RequestVerdict
from svc.interfaces.kinds import ServedKind, kind_of
from svc.messages.access import ApprovalForRequests
from svc.messages.control import ProxyDecision
from svc.model.audit.decision_ids import DecisionIds
from svc.model.audit.request import RepeatedRequest
from svc.model.cluster.agent import is_delegated
from svc.model.ids import Entropy, is_agent_id, random_id
from svc.model.policy.access import AccessRequest, ContextValue, Decision, EntityUid
from svc.model.policy.approval import MAX_VALID_SECS
from svc.model.policy.requested import (
    APPROVED_REQUEST,
    ApprovedAccess,
    can_be_asked,
    exact_command,
    request_command,
)
from svc.model.policy.requests import (
    NAMED_PERSON,
    context_at,
    may_act_as,
    may_open,
    may_open_at,
    may_view,
)
from svc.model.session.grant import Grant
from svc.model.session.identity import DENIED
from svc.model.session.request import SessionRequest
from svc.policy.engine import CompiledPolicy
from svc.policy.requestable import would_turn
from svc.proxy.sessions.gated import (
    GatedOpen,
    GatedRequest,
    GatedSession,
    KeepDenied,
    RepeatedGated,
    UseApproval,
    WorkElsewhere,
    WriteGated,
    is_free,
    not_kept,
    unapproved,
)
from svc.proxy.sessions.watched import WatchedRequests

CONFIRMED_SECS = 60.0
"""Authority is asked again so long after it said that an approval is in force."""


@frozen
class DecidedOpen:
    """An open as it was decided here.

    Attributes:
        decision: As Authority is told it.
        question: What the policy is asked at another time, or with an approved request too.
        basis: Policy, entities and second by which it was allowed; a denial has none, and never
            stands.
    """

    kind: ServedKind
    decision: ProxyDecision
    question: Callable[..., AccessRequest]
    basis: tuple[int, ...]


@define
class Gate:
    """Decides opens.

    Attributes:
        engine: Gives the engine in force, or raises while there is none fresh.
        on_decision: Told the request kind and the decision word of each decision.
        request_ids: Of this Proxy, for decisions on requests inside sessions.
        apart: Does a gate's work in a process of its own; see IGatedSession.
    """

    engine: Callable[[], CompiledPolicy]
    kinds: Mapping[str, ServedKind]
    now: Callable[[], float]
    entropy: Entropy
    on_decision: Callable[[str, str], object]
    request_ids: DecisionIds
    apart: WorkElsewhere

    def decide_open(
        self, request: SessionRequest, *, person_id: str, factor_at: int | None, source: str
    ) -> DecidedOpen:
        """Decide one open.

        Args:
            factor_at: When the person presented a second factor; None where nobody knows.
            source: The address that the person comes from.

        Raises:
            Malformed: see :func:`svc.interfaces.kinds.kind_of`.
            SvcError: no decision is possible now; counted as ``error``.
        """
        kind, asked = kind_of(self.kinds, request)
        try:
            engine = self.engine()
        except SvcError:
            self.on_decision(kind.request_kind, "error")
            raise
        now = self.now()
        question = partial(
            may_open_at,
            request_kind=kind.request_kind,
            action=request.action,
            person_id=person_id,
            target=EntityUid(kind.terms.entity_type, request.resource),
            source_address=source,
            asked=asked.facts,
            factor_at=factor_at,
        )
        decision = engine.decide(question(now))
        self.on_decision(kind.request_kind, decision.decision)
        return DecidedOpen(
            kind=kind,
            question=question,
            basis=_basis(engine, now) if decision.allowed else (),
            decision=ProxyDecision(
                decision_id=random_id(self.entropy),
                decision=decision.decision,
                reason="" if decision.allowed else "denied",
                policies=decision.policies,
                policy_version=decision.policy_version,
                entities_digest=decision.entities_digest,
                source_address=source,
            ),
        )

    def session(
        self,
        opened: GatedOpen,
        ceiling: Mapping[str, str],
        write: WriteGated,
        approval: UseApproval = unapproved,
        spend: Callable[[], object] = is_free,
        keep: KeepDenied = not_kept,
    ) -> GatedSession:
        """What a kind's gate is given: each of its requests is decided here."""
        return GatedSession(
            opened=opened,
            ceiling=ceiling,
            decides=self.decide_request,
            write=write,
            entropy=self.entropy,
            watched=WatchedRequests(partial(self.still_allows_request, opened)),
            standing=self.stands,
            spend=spend,
            elsewhere=self.apart,
            approval=approval,
            keep=keep,
            counted=self.on_decision,
        )

    def decide_request(
        self,
        opened: GatedOpen,
        action: str,
        facts: Mapping[str, ContextValue],
        found: ApprovalForRequests | None = None,
        text: bytes = b"",
    ) -> GatedRequest | RepeatedGated:
        """Decide one request of an open session; the session counts what comes of it.

        Args:
            found: An approval that Authority has counted a use of for this request.
            text: Its exact text; empty: it has none that could be approved.

        Raises:
            SvcError: no decision is possible now; counted as ``error``.
        """
        basis = self._counted_basis(opened, action, facts)
        known = opened.decided_before(basis, action, facts) if found is None else None
        if known is not None:
            return RepeatedRequest(known, self.request_ids.next())
        approved = (found and found.approved) or self._approval(opened, action)
        counted = self._counted(opened, action, facts)
        try:
            decision, reason = self._decided(opened, action, facts, approved)
            decision_id = self.request_ids.next()
            hint, lacks_text = self._way_to_ask(opened, decision, decision_id, text)
        except SvcError:
            self.on_decision(counted, "error")
            raise
        decided = GatedRequest(
            request=decision.request,
            resource_kind=opened.kind.name,
            decision=decision.decision if reason != DENIED else "deny",
            decision_id=decision_id,
            # Which policy keeps whom from being named tells who is there.
            policies=decision.policies if reason != DENIED else (),
            policy_version=decision.policy_version,
            entities_digest=decision.entities_digest,
            reason=reason,
            source_address=opened.source_address,
            numbers=opened.numbers,
            request_hint=hint,
            lacks_text=lacks_text,
            basis=basis,
            approved=approved,
        )
        if not reason:
            self._remember(opened, action, facts, decided, found)
        return decided

    def _let_stand(self, opened: GatedOpen, action: str, found: ApprovalForRequests | None) -> None:
        """Let further requests stand on an approval that Authority gave for them too.

        One of a single request says nothing of an earlier one that others stood on: it is out.
        """
        if found is None or found.approved is None or found.approved.exact:
            return
        opened.lasting.pop(action, None)
        if found.lasting:
            opened.lasting[action] = found.approved
            opened.confirmed_at[action] = self.now()

    def _remember(
        self,
        opened: GatedOpen,
        action: str,
        facts: Mapping[str, ContextValue],
        decided: GatedRequest,
        found: ApprovalForRequests | None,
    ) -> None:
        """What further requests may go by: an approval for them too, or the same decision."""
        self._let_stand(opened, action, found)
        # Not where an approval, which ends amid a second, or another person is in it.
        if not (decided.approved or opened.is_approved or NAMED_PERSON in facts):
            opened.remembered.keep(decided.basis, action, facts, decided)

    def _way_to_ask(
        self, opened: GatedOpen, decision: Decision, decision_id: str, text: bytes
    ) -> tuple[str, bool]:
        """What to type to ask for what was denied, and whether only a text to ask for is wanting.

        Nothing, and not, where an approval would not turn it.
        """
        if decision.allowed or decision.decision != "deny":
            return "", False
        asked, engine = decision.request, self.engine()
        command, lacks_text = "", False
        if asked.principal.type != "User" or not engine.requestable:
            return "", False  # only a person asks
        ends_at = int(self.now()) + MAX_VALID_SECS
        if APPROVED_REQUEST not in asked.context and would_turn(engine, asked, ends_at):
            is_open = asked.action == opened.request.action
            command = request_command(opened.request.resource, "" if is_open else asked.action)
        elif would_turn(engine, asked, ends_at, exact=True):
            lacks_text = not can_be_asked(text)
            command = "" if lacks_text else exact_command(decision_id)
        view = may_view(opened.person_id, asked.resource, self.now(), opened.source_address)
        if not (command or lacks_text) or not engine.decide(view).allowed:
            return "", False
        return command, lacks_text

    def stands(self, verdict: RequestVerdict | DecidedOpen) -> bool:
        """Whether what was decided a moment ago was decided by what is decided by now."""
        try:
            return verdict.basis == (self.engine().mark, int(self.now()))
        except SvcError:
            return False

    def _counted_basis(
        self, opened: GatedOpen, action: str, facts: Mapping[str, ContextValue]
    ) -> tuple[int, ...]:
        try:
            return _basis(self.engine(), self.now())
        except SvcError:
            self.on_decision(self._counted(opened, action, facts), "error")
            raise

    def still_allows_request(
        self,
        opened: GatedOpen,
        action: str,
        facts: Mapping[str, ContextValue],
        approved: ApprovedAccess | None = None,
    ) -> bool:
        """Whether a request that was allowed would be allowed now; not counted.

        Args:
            approved: What it stood on: it may do so until that ends.

        Raises:
            SvcError: no decision is possible now.
        """
        self._counted(opened, action, facts)
        if approved is None or approved.ends_at <= self.now():
            approved = self._approval(opened, action)
        return not self._decided(opened, action, facts, approved)[1]

    def _counted(self, opened: GatedOpen, action: str, facts: Mapping[str, ContextValue]) -> str:
        """What a request counts as.

        Raises:
            SvcError: the kind has no such action, or not these facts.
        """
        kind = opened.kind
        counted = kind.terms.actions.get(action)
        if counted is None:
            raise SvcError(f"{kind.name} has no action of this name", reason="unknown_action")
        if not set(facts) <= set(kind.terms.context):
            raise SvcError(f"{kind.name} has no fact of this name", reason="unknown_fact")
        return counted

    def _decided(
        self,
        opened: GatedOpen,
        action: str,
        facts: Mapping[str, ContextValue],
        approved: ApprovedAccess | None = None,
    ) -> tuple[Decision, str]:
        """The decision on the person's own request, and why it is denied; empty: it is not.

        One that is to be made as another person must be allowed to that one too, and to name it.
        """
        engine, own = self.engine(), dict(facts)
        if approved is not None:
            own[APPROVED_REQUEST] = approved.fact
        name = own.pop(NAMED_PERSON, None)
        named = engine.person_named(name) if isinstance(name, str) else None
        if name is not None and named is not None:
            own[NAMED_PERSON] = named.id
        decision = engine.decide(self._asked(opened, action, own, opened.person_id))
        if not decision.allowed:
            return decision, "denied"
        if name is None or (named is not None and named.id == opened.person_id):
            return decision, ""
        if named is None:
            return decision, DENIED
        about = context_at(self.now(), opened.source_address)
        naming = engine.decide(may_act_as(opened.person_id, named.id, about))
        own.pop(APPROVED_REQUEST, None)  # nobody approved anything for that one
        theirs = engine.decide(self._asked(opened, action, own, named.id))
        allowed = naming.allowed and theirs.allowed and self._may_act_for(engine, opened, named.id)
        return decision, "" if allowed else DENIED

    def _may_act_for(self, engine: CompiledPolicy, opened: GatedOpen, named_id: str) -> bool:
        """Whether an agent was delegated to act for a person; for people policy is enough."""
        if not is_agent_id(opened.person_id):
            return True
        texts, action = engine.acts_for(opened.person_id), opened.request.action
        return is_delegated(texts, named_id, action, self.now())

    def _approval(self, opened: GatedOpen, action: str) -> ApprovedAccess | None:
        """What requests of this action stand on: an approval of their own, or the session's."""
        lasting = opened.lasting.get(action)
        if (
            lasting is not None
            and opened.confirmed_at.get(action, 0.0) < self.now() - CONFIRMED_SECS
        ):
            lasting = None  # whoever approved it may have been let go
        found = lasting or opened.approved
        return None if found is None or found.ends_at <= self.now() else found

    def _asked(
        self, opened: GatedOpen, action: str, facts: Mapping[str, ContextValue], person_id: str
    ) -> AccessRequest:
        kind, asked = opened.kind, opened.request
        target = EntityUid(kind.terms.entity_type, asked.resource)
        # What another person could do is not known to depend on our person's second factor.
        factor_at = opened.factor_at if person_id == opened.person_id else None
        about = context_at(self.now(), opened.source_address, opened.facts, factor_at)
        context = {**facts, **about}
        return may_open(kind.terms.actions[action], action, person_id, target, context)

    def still_allows(
        self,
        opened: DecidedOpen,
        approved: ApprovedAccess | None = None,
        grant: Grant | None = None,
    ) -> bool:
        """Whether an open session would be allowed now; not counted, since nobody requested it.

        Args:
            approved: What the session stands on, as Authority says with its grant.
            grant: Of the session; each right that it gives would have to be given now too.

        Raises:
            SvcError: no decision is possible now.
        """
        engine, now = self.engine(), self.now()
        if not engine.decide(opened.question(now, approved=approved)).allowed:
            return False
        terms, held = opened.kind.terms, grant
        if held is None or held.operations is None or not terms.rights:
            return True
        actions = [terms.rights[name].action for name in held.operations if name in terms.rights]
        return all(
            engine.decide(
                opened.question(
                    now, action=one, request_kind=terms.actions[one], asked=held.ceiling
                )
            ).allowed
            for one in actions
        )


def _basis(engine: CompiledPolicy, now: float) -> tuple[int, ...]:
    """Engine and second: what is asked again of the same ones is answered the same.

    An engine is one policy over one revision of the entities; rows that are not what was signed
    for come and go without a revision.
    """
    return engine.mark, int(now)
