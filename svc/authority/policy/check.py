"""Tells operators what a policy text is worth before it is in force: nothing changes.

The text is tried, and asked, only in the guard's child process (rule R37).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from difflib import get_close_matches
from hashlib import sha256
from typing import Protocol, cast

from attrs import define, evolve

from svc.authority.policy.admin import shown
from svc.authority.policy.entity_rows import entities_from
from svc.authority.policy.lock_out import LockOutCheck
from svc.authority.state.cluster import ClusterState
from svc.errors import Fault, Malformed, NoSuchRow, SvcError
from svc.interfaces.kinds import ServedKind
from svc.model.audit.record import Actor
from svc.model.cluster.agent import require_agent
from svc.model.cluster.person import Person, PersonState
from svc.model.policy.access import AccessRequest, ContextValue, Entity, EntityUid, RequestKind
from svc.model.policy.requests import caller, context_at, user
from svc.model.policy.terms import ActionTerm
from svc.policy.entities import EntityView, cluster_uid
from svc.policy.places import entities_named
from svc.policy.trial import TrialAnswer
from svc.policy.typed_facts import facts_of
from svc.policy.vocabulary import Vocabulary
from svc.proto.gate.v1 import admin_pb2 as pb
from svc.runtime.threads import InThread

MOST_FACTS = 64


class AskText(Protocol):
    """Asks a text in the guard's child process; see ``PolicyGuard.ask``."""

    def __call__(
        self,
        text: str,
        requests: tuple[AccessRequest, ...],
        entities: tuple[Entity, ...],
        *,
        proposed: bool,
    ) -> Awaitable[tuple[TrialAnswer, ...]]:
        """One answer for each request."""


@define
class PolicyCheck:
    """Says whether a text could be activated, and what it would decide.

    Attributes:
        refresh: The cluster's facts as the store has them now.
    """

    cluster: str
    vocabulary: Vocabulary
    kinds: Mapping[str, ServedKind]
    refresh: Callable[[], Awaitable[ClusterState]]
    lock_out: LockOutCheck
    ask: AskText
    in_thread: InThread
    now: Callable[[], float]

    async def check(self, request: pb.CheckPolicyRequest, actor: Actor) -> pb.CheckPolicyResponse:
        """Refuse the text for all that setting it would refuse it for, then ask it.

        Raises:
            SvcError: the text cannot be activated, or what is asked cannot be.
        """
        facts = await self.refresh()
        stored = facts.policy
        if not request.candidate and stored is None:
            raise SvcError(
                "no policy is in force", reason="policy_unavailable", fault=Fault.UNAVAILABLE
            )
        text = request.text if request.candidate or stored is None else stored.text
        asked = list(self.lock_out.requests())
        keepers = len(asked)
        assumed: dict[str, ContextValue] = {}
        if request.HasField("request"):
            one, assumed = self._request(request.request, facts)
            asked.append(one)
        entities = await self._entities(text, asked, facts)
        answers = await self.ask(text, tuple(asked), entities, proposed=request.candidate)
        rest = answers[keepers:]
        if request.candidate:
            self.lock_out.require_any(answers[:keepers])
        is_stored = stored is not None and stored.text == text
        active = None
        if stored is not None and request.replay:
            active = shown(stored, stored.text, facts.people)
        return pb.CheckPolicyResponse(
            version=stored.version if stored is not None and is_stored else 0,
            sha256=sha256(text.encode()).hexdigest(),
            decision=_told(rest[0], assumed) if rest else None,
            active=active,
        )

    async def _entities(
        self, text: str, asked: list[AccessRequest], facts: ClusterState
    ) -> tuple[Entity, ...]:
        """What the answers can depend on: who and what is asked about, and what the text names."""
        kept = entities_from(facts, self.kinds, self.cluster)
        names = [uid for request in asked for uid in (request.principal, request.resource)]

        def close() -> tuple[Entity, ...]:
            view = EntityView(kept)
            return tuple(
                view.entities[uid] for uid in view.closure([*names, *entities_named(text)])
            )

        return await self.in_thread(close)

    def _request(
        self, asked: pb.CheckedRequest, facts: ClusterState
    ) -> tuple[AccessRequest, dict[str, ContextValue]]:
        """The request, and those of its facts that nobody gave."""
        action = self._action(asked.action)
        if len(asked.facts) > MOST_FACTS:
            raise Malformed(f"policy check: more than {MOST_FACTS} facts")
        shape = self.vocabulary.shapes[action.name]
        given = facts_of(((one.name, one.value) for one in asked.facts), action.name, shape)
        time = {
            name: value for name, value in context_at(self.now()).items() if name in shape.facts
        }
        request = AccessRequest(
            request_kind=cast(RequestKind, action.request_kind),
            principal=_principal(asked.person, facts),
            action=action.name,
            resource=self._resource(asked.resource, action, facts),
            context={**time, **given},
        )
        if self.vocabulary.refusal(evolve(request, context={})) is not None:
            raise Malformed(
                f"action {action.name}: it is for {_or(action.principals)} on "
                f"{_or(action.resources)}, not for {request.principal.type} on "
                f"{request.resource.type}"
            )
        return request, {name: value for name, value in time.items() if name not in given}

    def _action(self, name: str) -> ActionTerm:
        known = {action.name: action for action in self.vocabulary.terms.actions}
        if name not in known:
            near = get_close_matches(name, sorted(known), 1, 0.0)
            raise Malformed(
                f"action {name}: does not exist; the nearest is {near[0]}; all of them: "
                f"{', '.join(sorted(known))}"
            )
        return known[name]

    def _resource(self, id: str, action: ActionTerm, facts: ClusterState) -> EntityUid:
        if set(action.resources) == {"Cluster"} and id in ("", self.cluster):
            return cluster_uid(self.cluster)
        if not id:
            raise Malformed(f"action {action.name}: it is about a resource; name one (--resource)")
        found = facts.catalog.get(id)
        kind = None if found is None else self.kinds.get(found.kind)
        if kind is None:
            raise NoSuchRow(
                f"resource {id}: does not exist; list them: svc authority resources list"
            )
        return EntityUid(kind.terms.entity_type, id)


def _principal(word: str, facts: ClusterState) -> EntityUid:
    if word.startswith("local:"):
        return EntityUid("Operator", word)
    agents = [one for one in facts.agents.values() if word in (one.id, one.name)]
    if agents:
        require_agent(agents[0], facts.people.get(agents[0].owner))
        return caller(agents[0].id)
    people: list[Person] = [one for one in facts.people.values() if word in (one.id, one.name)]
    if not people:
        raise NoSuchRow(f"person {word}: does not exist; list them: svc authority persons list")
    if len(people) > 1:
        ids = ", ".join(sorted(one.id for one in people))
        raise Malformed(f"person {word}: several have this name; give an id: {ids}")
    if people[0].state is not PersonState.ACTIVE:
        raise SvcError(
            f"person {word}: is {people[0].state.value}, so nothing is asked of the policy for "
            "this person",
            reason=f"person_{people[0].state.value}",
            fault=Fault.PRECONDITION,
        )
    return user(people[0].id)


def _or(names: tuple[str, ...]) -> str:
    return " or ".join(sorted(names))


def _told(answer: TrialAnswer, assumed: Mapping[str, ContextValue]) -> pb.CheckedDecision:
    return pb.CheckedDecision(
        decision=answer.decision,
        policies=[
            pb.CheckedPolicy(id=name, reason=answer.reasons.get(name, ""))
            for name in answer.policies
        ],
        considered=answer.considered,
        missing_facts=answer.missing,
        errors=answer.errors,
        assumed=[
            pb.CheckedFact(name=name, value=str(value)) for name, value in sorted(assumed.items())
        ],
    )
