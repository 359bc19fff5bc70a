"""Finds the policies that a request can concern at all, and what they read.

Cedar looks at every policy it is given; so it is given only those whose scope
can match.  A policy is left out only when its scope cannot hold for the
request: then Cedar would neither apply it nor report an error from it, so
decision, reasons and errors are those of the whole set.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import frozen
from cedarpy import PolicySet, pst

from svc.model.policy.access import EntityUid
from svc.model.policy.requested import REQUESTABLE
from svc.policy.entities import EntityView
from svc.policy.method_cache import cached_method
from svc.policy.possible import over_known
from svc.policy.reads import reads_of

MAX_SUBSETS = 4_096
"""Distinct sets of policies kept parsed; each is a handle of a few kilobytes."""

ScopeKey = EntityUid | str | None
"""What a scope wants among a request's keys: an entity, a type, or nothing."""


@frozen(eq=False)
class Slice:
    """The policies that can concern a request.

    ``reads`` are the facts of the context they look at (None: they may look
    at all of them), ``literals`` the entities their conditions name.
    ``policies`` is None when there are none.
    """

    ids: frozenset[str]
    policies: PolicySet | None
    reads: frozenset[str] | None
    literals: frozenset[EntityUid]


class SliceIndex:
    """Policies by action, principal scope and resource scope.

    Args:
        policies: The policies under the ids they are to be reported by.
        members: Each action group's actions.
    """

    def __init__(
        self, policies: Mapping[str, pst.Template], members: Mapping[str, frozenset[str]]
    ) -> None:
        self._policies = policies
        self._reads = {name: reads_of(policy.clauses) for name, policy in policies.items()}
        self._literals = {name: _literals(policy) for name, policy in policies.items()}
        self._requestable = frozenset(
            name for name, policy in policies.items() if REQUESTABLE in policy.annotations
        )
        self._index: dict[str | None, dict[ScopeKey, dict[ScopeKey, list[str]]]] = {}
        for name, policy in policies.items():
            principal, resource = _scope(policy.principal), _scope(policy.resource)
            for action in scope_actions(policy, members):
                by_principal = self._index.setdefault(action, {})
                by_principal.setdefault(principal, {}).setdefault(resource, []).append(name)
        self._subset = cached_method(self._make, MAX_SUBSETS)
        self._possible = cached_method(self._make_possible, MAX_SUBSETS)

    def find(
        self, action: str, principal: EntityUid, resource: EntityUid, view: EntityView
    ) -> Slice:
        """The slice for a request; equal sets of policies give one object."""
        principals: list[ScopeKey] = [None, principal.type, *view.upwards(principal)]
        resources: list[ScopeKey] = [None, resource.type, *view.upwards(resource)]
        ids: list[str] = []
        for act in (action, None):
            by_principal = self._index.get(act)
            if by_principal is None:
                continue
            for who in principals:
                by_resource = by_principal.get(who)
                if by_resource is None:
                    continue
                for what in resources:
                    ids += by_resource.get(what, ())
        return self._subset(frozenset(ids))

    def over_known(self, chosen: Slice, known: frozenset[str]) -> Slice:
        """What the policies of a slice allow at most, where only *known* facts are looked at."""
        return self._possible(chosen.ids, known)

    def reasons(self) -> dict[str, str]:
        """Each policy's ``@reason``, where it has one."""
        return {
            name: policy.annotations["reason"]
            for name, policy in self._policies.items()
            if policy.annotations.get("reason")
        }

    @property
    def requestable(self) -> frozenset[str]:
        """The permits that people may ask for."""
        return self._requestable

    def whole(self) -> Slice:
        """Every policy as one slice."""
        return self._subset(frozenset(self._policies))

    def _make(self, ids: frozenset[str]) -> Slice:
        reads: frozenset[str] | None = frozenset()
        for name in ids:
            own = self._reads[name]
            reads = None if own is None or reads is None else reads | own
        literals = frozenset(uid for name in ids for uid in self._literals[name])
        return Slice(
            ids=ids,
            policies=policy_set(self._policies, ids) if ids else None,
            reads=reads,
            literals=literals,
        )

    def _make_possible(self, ids: frozenset[str], known: frozenset[str]) -> Slice:
        policies = {name: over_known(self._policies[name], known) for name in ids}
        return Slice(
            ids=ids,
            policies=policy_set(policies, ids) if ids else None,
            reads=known,
            literals=frozenset(),
        )


def policy_set(policies: Mapping[str, pst.Template], ids: Iterable[str]) -> PolicySet:
    """The handle for some of the policies.

    Raises:
        ValueError: Cedar does not take the nodes.
    """
    chosen = {name: policies[name] for name in sorted(ids)}
    return PolicySet.from_pst(
        pst.PolicySet(templates={}, static_policies=chosen, template_links=())
    )


def _literals(policy: pst.Template) -> frozenset[EntityUid]:
    return frozenset(_uid(uid) for uid in pst.entity_uids(policy.clauses))


def _uid(uid: pst.EntityUid) -> EntityUid:
    return EntityUid(str(uid.type), uid.id)


def _scope(constraint: pst.PrincipalOrResourceConstraint) -> ScopeKey:
    match constraint:
        case pst.ScopeAny():
            return None
        case pst.ScopeIs(entity_type):
            return str(entity_type)
        case pst.ScopeEq(entity) | pst.ScopeIn(entity) | pst.ScopeIsIn(entity=entity):
            if isinstance(entity, pst.Slot):
                raise ValueError("a template slot has no scope")
            return _uid(entity)


def scope_actions(
    policy: pst.Template, members: Mapping[str, frozenset[str]]
) -> frozenset[str | None]:
    """The actions in a policy's scope; None among them: any."""
    match policy.action:
        case pst.ScopeAny():
            return frozenset({None})
        case pst.ActionEq(entity):
            return frozenset({entity.id})
        case pst.ActionIn(entities):
            named = {entity.id for entity in entities}
            return frozenset(named.union(*(members.get(name, frozenset()) for name in named)))
