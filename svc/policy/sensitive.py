"""Says which changes between two policy texts are security-sensitive, and why (G-OPEN-58).

Made from the parsed policies, never from the text: a policy that was moved, or got another comment
or ``@reason``, has not changed.  Policies are compared by their ``@id``; one that was renamed was
removed and added.  What counts is listed in :class:`Sensitive`, and in docs/how-to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from attrs import frozen
from cedarpy import pst

from svc.model.policy.access import EntityUid
from svc.model.policy.rules import Sensitive
from svc.policy.compile import read_policies
from svc.policy.prescan import PolicyLimits
from svc.policy.slices import scope_actions
from svc.policy.vocabulary import Vocabulary

ADMINISTER = "administer"
CLUSTER = "Cluster"


@frozen
class PolicyChange:
    """One policy that two texts do not have in common.

    Attributes:
        policy: Its ``@id``.
        change: ``added``, ``removed`` or ``changed``.
        sensitive: Why this needs more approvals; empty where it does not.
    """

    policy: str
    change: str
    sensitive: tuple[Sensitive, ...] = ()


def policy_changes(
    before: str, after: str, vocabulary: Vocabulary, break_glass: Iterable[EntityUid] = ()
) -> tuple[PolicyChange, ...]:
    """What changes from one text to another, by ``@id``.

    Blocks as long as parsing both texts takes, and parses them in this process: only for texts
    that the guard let pass.

    Raises:
        PolicyRefused: *after* is no policy of this vocabulary.  A *before* that is none is taken
            for an empty one, so that everything of *after* is new.
    """
    limits = PolicyLimits()
    new = _shapes(read_policies(after, vocabulary, limits))
    old = _shapes(_read_before(before, vocabulary, limits))
    named = frozenset(break_glass)
    found = []
    for name in sorted({*old, *new}):
        was, now = old.get(name), new.get(name)
        if was != now:
            found.append(PolicyChange(name, _word(was, now), _reasons(was, now, vocabulary, named)))
    return tuple(found)


def _read_before(
    text: str, vocabulary: Vocabulary, limits: PolicyLimits
) -> Mapping[str, pst.Template]:
    from svc.policy.refusals import PolicyRefused

    try:
        return read_policies(text, vocabulary, limits)
    except PolicyRefused:
        return {}


def _shapes(policies: Mapping[str, pst.Template]) -> dict[str, pst.Template]:
    """The policies without what decides nothing."""
    return {name: replace(one, annotations={}) for name, one in policies.items()}


def _word(was: object, now: object) -> str:
    if was is None:
        return "added"
    return "removed" if now is None else "changed"


def _reasons(
    was: pst.Template | None,
    now: pst.Template | None,
    vocabulary: Vocabulary,
    break_glass: frozenset[EntityUid],
) -> tuple[Sensitive, ...]:
    either = [one for one in (was, now) if one is not None]
    found = []
    if any(_is_administrative(one, vocabulary) for one in either):
        found.append(Sensitive.ADMINISTRATIVE)
    if was is not None and was.effect == "forbid":
        found.append(Sensitive.FORBID_REMOVED if now is None else Sensitive.FORBID_CHANGED)
    if now is not None and now.effect == "permit":
        found += _widened(was, now)
    if break_glass and any(break_glass & _named(one) for one in either):
        found.append(Sensitive.BREAK_GLASS)
    return tuple(found)


def _widened(was: pst.Template | None, now: pst.Template) -> list[Sensitive]:
    """The parts of the scope that are without a constraint, and were not."""
    is_permit = was is not None and was.effect == "permit"
    parts = (
        (Sensitive.ANY_PRINCIPAL, "principal"),
        (Sensitive.ANY_ACTION, "action"),
        (Sensitive.ANY_RESOURCE, "resource"),
    )
    return [
        why
        for why, part in parts
        if _is_any(getattr(now, part)) and not (is_permit and _is_any(getattr(was, part)))
    ]


def _is_any(constraint: object) -> bool:
    return isinstance(constraint, pst.ScopeAny)


def _is_administrative(policy: pst.Template, vocabulary: Vocabulary) -> bool:
    """Whether its scope lets it decide about an administrative action."""
    actions = scope_actions(policy, vocabulary.members)
    administrative = vocabulary.members.get(ADMINISTER, frozenset())
    concerns = None in actions or not administrative.isdisjoint(a for a in actions if a)
    return concerns and _may_be_cluster(policy.resource)


def _may_be_cluster(constraint: Any) -> bool:
    match constraint:
        case pst.ScopeAny():
            return True
        case pst.ScopeIs(entity_type) | pst.ScopeIsIn(entity_type=entity_type):
            return str(entity_type) == CLUSTER
        case pst.ScopeEq(entity) | pst.ScopeIn(entity):
            return isinstance(entity, pst.Slot) or str(entity.type) == CLUSTER
    return True


def _named(policy: pst.Template) -> frozenset[EntityUid]:
    return frozenset(EntityUid(str(one.type), one.id) for one in pst.entity_uids(policy))
