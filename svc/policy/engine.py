"""One policy version over one revision of the entities, ready to decide.

Everything a decision needs is parsed beforehand.  Nothing here changes after
it is made, except caches whose content follows from what is already fixed; so
a new version or revision is a new engine, swapped in whole.

Why a cached answer is the answer: the evaluator is given only the context
facts that the slice's policies read, and the cache is keyed by exactly these.
What is not in the key never reached the evaluator.  An answer that read a
fact which changes with every second is not kept at all.

The evaluator is given only the entities that the decision can depend on, too:
it takes longer with many, and nothing of all the others has to be parsed.

A new revision of the entities takes over each plan that looks at none of the
entities that changed, with its answers: the digest that such a decision carries
is the same.  Most changes are of one resource or person, and all who follow a
list of resources ask for all of it at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import count
from typing import Any

from attrs import evolve, frozen
from cedarpy import Entities
from zope.interface import implementer

from svc.errors import Malformed
from svc.interfaces.policy import IPolicyEngine
from svc.model.policy.access import (
    AccessRequest,
    ContextValue,
    Decision,
    Entity,
    EntityUid,
)
from svc.policy.claims import ClaimRead
from svc.policy.entities import EntityView
from svc.policy.evaluation import Evaluation, SlicePlan, evaluate, parse_schema
from svc.policy.fact_reads import FactRead, read_facts, read_of
from svc.policy.kept import Kept
from svc.policy.method_cache import cached_method
from svc.policy.refusals import EntitiesRefused
from svc.policy.slices import Slice, SliceIndex
from svc.policy.vocabulary import Vocabulary

MAX_PLANS = 16_384
MAX_ANSWERS = 65_536
MAX_PAST = 32
"""Revisions of which it is known what changed since."""

_NO_DIGEST = ""
_PlanKey = tuple[str, str, str, str, str]


@frozen
class RequestScope:
    """What a request makes the engine look at.

    Attributes:
        policies: The policies whose scope fits.
        facts: The facts of a request that they read.
    """

    policies: frozenset[str] = frozenset()
    facts: frozenset[str] = frozenset()


_MOST_KNOWN = 256
"""Actions, each with facts that are known before there is a request."""

_MANY = 100
"""Entities that take about a millisecond to parse."""

_MARKS = count(1)
"""Of engines, in this process: never the same twice."""

_EMPTY_DENY = Evaluation(allowed=False, decision="deny", policies=(), errors=())


@implementer(IPolicyEngine)
class CompiledPolicy:
    """An engine; make one with ``svc.policy.compile.compile_policy``.

    Args:
        version: The policy's version.
        revision: The revision of *entities*.
        vocabulary: What may be asked.
        index: The policies, sliced.
        entities: Who and what there is.
        claims: The policies of the text that read what nothing enforces; the
            permits among them are not in *index*.
        max_plans: How many combinations of principal, action and resource are kept.
        max_answers: How many answers are kept.
        former: The same policies over other entities: what it remembers and still holds is taken
            over.

    Raises:
        EntitiesRefused: *entities* do not fit the vocabulary.
    """

    def __init__(
        self,
        version: int,
        revision: int,
        vocabulary: Vocabulary,
        index: SliceIndex,
        entities: Iterable[Entity],
        claims: tuple[ClaimRead, ...] = (),
        max_plans: int = MAX_PLANS,
        max_answers: int = MAX_ANSWERS,
        former: CompiledPolicy | None = None,
    ) -> None:
        self.version = version
        self.claims = claims
        self.revision = revision
        self.vocabulary = vocabulary
        self._index = index
        self._view = EntityView(entities)
        if former is None:
            changed = frozenset(self._view.entities)
        else:
            changed = self._view.follow(former._view)
        if any(uid.type == "Action" for uid in changed):
            raise EntitiesRefused("the schema defines the actions; entities may not")
        self._parsed(changed)
        # Keyed by texts: names that are equal and not one object would be compared in Python.
        self._plans: Kept[_PlanKey, SlicePlan] = Kept(max_plans)
        self._answers: Kept[tuple[SlicePlan, tuple[Any, ...]], Evaluation] = Kept(max_answers)
        self.mark = next(_MARKS)
        self._past: tuple[tuple[int, frozenset[EntityUid]], ...] = ()
        if former is not None:
            self._take_over(former, changed)
        self._known = cached_method(self._reads_known, _MOST_KNOWN)
        self._possible = cached_method(self._ever, max_plans)

    def with_entities(
        self,
        entities: Iterable[Entity],
        revision: int,
        max_plans: int = MAX_PLANS,
        max_answers: int = MAX_ANSWERS,
    ) -> CompiledPolicy:
        """The same policies over other entities; nothing of the text is parsed again.

        Blocks for about 2 µs an entity, and 10 for each that is another: call it in a thread when
        there are many.  What this one remembers, and no change concerns, goes on to be remembered.

        Raises:
            EntitiesRefused: *entities* do not fit the vocabulary.
        """
        return CompiledPolicy(
            version=self.version,
            revision=revision,
            vocabulary=self.vocabulary,
            index=self._index,
            entities=entities,
            claims=self.claims,
            max_plans=max_plans,
            max_answers=max_answers,
            former=self,
        )

    def _take_over(self, former: CompiledPolicy, changed: frozenset[EntityUid]) -> None:
        """It may decide in another thread meanwhile: what it remembers is copied in one step."""
        plans, answers = list(former._plans.items()), list(former._answers.items())
        self._past = (*former._past[1 - MAX_PAST :], (former.mark, changed))
        still = {plan for _, plan in plans if plan.looked_at.isdisjoint(changed)}
        self._plans.update(one for one in plans if one[1] in still)
        self._answers.update(
            (key, answer)
            for key, answer in answers
            if key[0] in still and answer.decision != "error"  # it may have been a passing one
        )

    @property
    def entities(self) -> tuple[Entity, ...]:
        """The entities it decides over."""
        return tuple(self._view.entities.values())

    def changed_since(self, mark: int) -> frozenset[EntityUid] | None:
        """The entities that are not as they were for the engine with this ``mark``.

        Returns:
            None where that engine has other policies, or is too old.
        """
        if mark == self.mark:
            return frozenset()
        changed: frozenset[EntityUid] = frozenset()
        for former, since in reversed(self._past):
            changed |= since
            if former == mark:
                return changed
        return None

    def depends_on(self, request: AccessRequest) -> frozenset[EntityUid] | None:
        """The entities that the decision of *request* can depend on, whether they exist or not.

        As long as none of them changes, the same policies decide the same request alike, if the
        facts that it comes with are the same: see :meth:`lasting_context`.

        Returns:
            None where the decision depends on a fact that changes with every second, or there is
            none.
        """
        if self.vocabulary.refusal(request) is not None:
            return None
        plan = self._plan(request)
        return None if plan.ticking else plan.looked_at

    def lasting_context(self, request: AccessRequest) -> dict[str, ContextValue]:
        """The facts of *request* but those that change with every second."""
        shape = self.vocabulary.shapes.get(request.action)
        facts = {} if shape is None else shape.facts
        return {
            name: value
            for name, value in request.context.items()
            if name not in facts or not facts[name].ticking
        }

    def decide(self, request: AccessRequest) -> Decision:
        refusal = self.vocabulary.refusal(request)
        if refusal is not None:
            return self._decision(
                Evaluation(allowed=False, decision="error", policies=(), errors=(refusal,)),
                _NO_DIGEST,
                request,
            )
        plan = self._plan(request)
        if plan.slice.policies is None:
            return self._decision(_EMPTY_DENY, plan.digest, request)
        read = read_facts(plan.reads, request)
        if plan.ticking:
            return self._decision(evaluate(plan, read), plan.digest, request)
        answer = self._answers.get((plan, read))
        if answer is None:
            answer = evaluate(plan, read)
            self._answers.keep((plan, read), answer)
        return self._decision(answer, plan.digest, request)

    def may_ever(self, request: AccessRequest) -> bool:
        if self.vocabulary.refusal(request) is not None:
            return True
        return bool(self.may_ever_by(request))

    def may_ever_by(self, request: AccessRequest) -> frozenset[str]:
        if self.vocabulary.refusal(request) is not None:
            return self._index.whole().ids
        reads = self._known(request.action, frozenset(request.context))
        return self._possible(self._plan(request), reads, read_facts(reads, request))

    def _reads_known(self, action: str, known: frozenset[str]) -> tuple[FactRead, ...]:
        facts = self.vocabulary.shapes[action].facts
        return tuple(read_of(facts[name]) for name in sorted(known))

    def _ever(
        self, plan: SlicePlan, reads: tuple[FactRead, ...], read: tuple[Any, ...]
    ) -> frozenset[str]:
        if plan.slice.policies is None:
            return frozenset()
        known = frozenset(one.name for one in reads)
        asked = evolve(plan, slice=self._index.over_known(plan.slice, known), reads=reads)
        answer = evaluate(asked, read)
        if answer.allowed:
            return frozenset(answer.policies)
        # What failed here may not fail with the facts that are left out.
        return plan.slice.ids if answer.decision == "error" else frozenset()

    def entity_slice(self, request: AccessRequest) -> tuple[Entity, ...]:
        if self.vocabulary.refusal(request) is not None:
            return ()
        plan = self._plan(request)
        uids = self._view.closure(_looked_at(request.principal, request.resource, plan.slice))
        return tuple(self._view.entities[uid] for uid in uids)

    def person_named(self, name: str) -> EntityUid | None:
        """The person of this name, if there is exactly one."""
        return self._view.person_named(name)

    def acts_for(self, agent_id: str) -> tuple[str, ...]:
        """For whom an agent may act, as :func:`svc.model.cluster.agent.is_delegated` reads it."""
        found = self._view.entities.get(EntityUid("Agent", agent_id))
        listed = () if found is None else found.attrs.get("acts_for", ())
        return tuple(listed) if isinstance(listed, (tuple, frozenset)) else ()

    def scope_of(self, request: AccessRequest) -> RequestScope:
        """The policies that can concern *request*, and the facts that they read."""
        if self.vocabulary.refusal(request) is not None:
            return RequestScope()
        plan = self._plan(request)
        return RequestScope(plan.slice.ids, frozenset(fact.name for fact in plan.reads))

    def reads(self, request: AccessRequest, name: str) -> bool:
        """Whether a policy that can concern *request*, which can be asked, reads that fact."""
        return any(fact.name == name for fact in self._plan(request).reads)

    def reasons(self) -> dict[str, str]:
        """Each policy's ``@reason`` by its ``@id``, for explanations."""
        return self._index.reasons()

    @property
    def requestable(self) -> frozenset[str]:
        """The permits that people may ask for, by ``@id``."""
        return self._index.requestable

    def decide_by_all(self, request: AccessRequest) -> Decision:
        """The same question put to every policy at once, kept nowhere.

        Slow; for the guard's trial and for comparing with :meth:`decide`.
        """
        refusal = self.vocabulary.refusal(request)
        if refusal is not None:
            return self._decision(
                Evaluation(allowed=False, decision="error", policies=(), errors=(refusal,)),
                _NO_DIGEST,
                request,
            )
        who, what = request.principal, request.resource
        plan = self._make_plan(request.action, who.type, who.id, what.type, what.id)
        reads = tuple(map(read_of, self.vocabulary.shapes[request.action].facts.values()))
        whole = evolve(
            plan,
            slice=self._index.whole(),
            reads=reads,
            entities=self._parsed(frozenset(self._view.entities)),
        )
        answer = evaluate(whole, read_facts(reads, request))
        return self._decision(answer, plan.digest, request)

    def _decision(self, answer: Evaluation, digest: str, request: AccessRequest) -> Decision:
        return Decision(
            allowed=answer.allowed,
            decision=answer.decision,
            policies=answer.policies,
            errors=answer.errors,
            policy_version=self.version,
            entities_digest=digest,
            request=request,
        )

    def _plan(self, request: AccessRequest) -> SlicePlan:
        who, what = request.principal, request.resource
        key = (request.action, who.type, who.id, what.type, what.id)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._make_plan(*key)
            self._plans.keep(key, plan)
        return plan

    def _make_plan(
        self, action: str, who_type: str, who_id: str, what_type: str, what_id: str
    ) -> SlicePlan:
        principal, resource = EntityUid(who_type, who_id), EntityUid(what_type, what_id)
        chosen = self._index.find(action, principal, resource, self._view)
        facts = self.vocabulary.shapes[action].facts
        reads = [
            fact for name, fact in facts.items() if chosen.reads is None or name in chosen.reads
        ]
        looked_at = self._view.above(_looked_at(principal, resource, chosen))
        return SlicePlan(
            slice=chosen,
            reads=tuple(map(read_of, reads)),
            ticking=any(fact.ticking for fact in reads),
            digest=self._view.digest(looked_at),
            looked_at=looked_at,
            entities=self._parsed(looked_at),  # each was checked as it came
            principal=principal.form(),
            action={"type": "Action", "id": action},
            resource=resource.form(),
        )

    def _parsed(self, uids: Collection[EntityUid]) -> Entities:
        """Those of *uids* that exist.

        Raises:
            EntitiesRefused: they do not fit the vocabulary.
        """
        try:
            text = self._view.text(uids)
            # Few are parsed sooner than another thread gives the interpreter back.
            many = len(uids) > _MANY
            return Entities.from_json_str(text, parse_schema(self.vocabulary), release_gil=many)
        except (ValueError, Malformed) as failure:
            raise EntitiesRefused(f"entities: {str(failure)[:500]}") from None


def _looked_at(principal: EntityUid, resource: EntityUid, chosen: Slice) -> tuple[EntityUid, ...]:
    return (principal, resource, *chosen.literals)
