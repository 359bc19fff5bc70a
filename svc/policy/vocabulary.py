"""The vocabulary: the joined terms, their schema, and what a request may contain.

The list of an action's facts is closed: a request that carries anything else
is not decided, whatever the policies say, so nothing unclassified can reach a
decision or its record.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Any

from attrs import evolve, field, frozen

from svc.model.policy.access import LARGEST_INTEGER, REQUEST_KINDS, AccessRequest
from svc.model.policy.terms import (
    VALUE_TYPES,
    ActionGroupTerm,
    ActionTerm,
    AttributeTerm,
    Classified,
    EntityTerm,
    Terms,
)
from svc.policy.refusals import VocabularyError
from svc.policy.words import CORE

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}\Z")
_RESERVED = frozenset(
    {
        *("true", "false", "if", "then", "else", "in", "is", "like", "has"),
        *("Bool", "Boolean", "Long", "String", "Set", "Record", "Entity", "Extension"),
        *("ipaddr", "decimal", "datetime", "duration"),
        *("Action", "principal", "action", "resource", "context"),
    }
)


def _is_bool(value: object) -> bool:
    return value is True or value is False


def _is_long(value: object) -> bool:
    return type(value) is int and -LARGEST_INTEGER <= value <= LARGEST_INTEGER


def _is_text(value: object) -> bool:
    return type(value) is str


def _is_texts(value: object) -> bool:
    return isinstance(value, (tuple, frozenset, list, set)) and all(map(_is_text, value))


_CHECKS: Mapping[str, Callable[[object], bool]] = {
    "Bool": _is_bool,
    "Long": _is_long,
    "String": _is_text,
    "ipaddr": _is_text,
    "Set<String>": _is_texts,
}


@frozen
class ActionShape:
    """What may be asked under one action."""

    principals: frozenset[str]
    resources: frozenset[str]
    facts: Mapping[str, AttributeTerm]
    checks: Mapping[str, Callable[[object], bool]]


@frozen(eq=False)
class Vocabulary:
    """Joined terms and everything made from them once.

    Make one with :func:`vocabulary` or :func:`vocabulary_of_terms`.
    """

    terms: Terms
    schema: str
    digest: str
    shapes: Mapping[str, ActionShape] = field(repr=False)
    members: Mapping[str, frozenset[str]] = field(repr=False)

    @property
    def claimed(self) -> frozenset[str]:
        """The facts of requests that nothing enforces."""
        return frozenset(fact.name for fact in self.terms.facts if fact.claimed)

    def refusal(self, request: AccessRequest) -> str | None:
        """The word for why *request* cannot be asked at all; None: it can."""
        shape = self.shapes.get(request.action)
        if shape is None:
            return "unknown_action"
        if (
            request.principal.type not in shape.principals
            or request.resource.type not in shape.resources
        ):
            return "action_does_not_apply"
        checks = shape.checks
        for name, value in request.context.items():
            check = checks.get(name)
            if check is None:
                return _named("context_unknown", name)
            if not check(value):
                return _named("context_malformed", name)
        return None

    def classified(self, action: str, name: str) -> Classified:
        """How the fact *name* of *action* is kept in the audit log.

        Raises:
            VocabularyError: the action has no such fact.
        """
        shape = self.shapes.get(action)
        if shape is None or name not in shape.facts:
            raise VocabularyError(f"{action}: it has no fact of that name")
        return shape.facts[name].classified


def vocabulary(*more: Terms) -> Vocabulary:
    """The core's words and those of the kinds in use.

    Raises:
        VocabularyError: naming the word that does not go together.
    """
    return vocabulary_of_terms(join((CORE, *more)))


@lru_cache(maxsize=4)
def vocabulary_of_terms(terms: Terms) -> Vocabulary:
    """The vocabulary of terms that are already joined (a snapshot's).

    Remembered: every snapshot of a cluster has the same terms.

    Raises:
        VocabularyError: naming the word that does not go together.
    """
    _check(terms)
    facts = {fact.name: fact for fact in terms.facts}
    schema = schema_text(terms)
    return Vocabulary(
        terms=terms,
        schema=schema,
        digest=sha256(schema.encode()).hexdigest(),
        shapes={action.name: _shape(action, facts) for action in terms.actions},
        members={
            group.name: frozenset(a.name for a in terms.actions if group.name in a.groups)
            for group in terms.groups
        },
    )


def join(parts: Iterable[Terms]) -> Terms:
    """All the parts as one: equal words once, same-named words united.

    Raises:
        VocabularyError: two parts give one name two meanings.
    """
    entities: dict[str, EntityTerm] = {}
    groups: dict[str, ActionGroupTerm] = {}
    facts: dict[str, AttributeTerm] = {}
    actions: dict[str, ActionTerm] = {}
    for part in parts:
        for entity in part.entities:
            entities[entity.name] = _unite_entities(entities.get(entity.name, entity), entity)
        for group in part.groups:
            groups.setdefault(group.name, group)
        for fact in part.facts:
            facts[fact.name] = _unite_facts(facts.get(fact.name, fact), fact)
        for action in part.actions:
            actions[action.name] = _unite_actions(actions.get(action.name, action), action)
    return Terms(
        entities=tuple(entities.values()),
        groups=tuple(groups.values()),
        facts=tuple(facts.values()),
        actions=tuple(actions.values()),
    )


def schema_text(terms: Terms) -> str:
    """The Cedar schema of *terms*: the same terms give the same text."""
    facts = {fact.name: fact for fact in terms.facts}
    lines = [_entity_line(entity) for entity in sorted(terms.entities, key=lambda e: e.name)]
    lines += [f'action "{g.name}";' for g in sorted(terms.groups, key=lambda g: g.name)]
    lines += [_action_line(a, facts) for a in sorted(terms.actions, key=lambda a: a.name)]
    return "\n".join(lines) + "\n"


def _entity_line(entity: EntityTerm) -> str:
    parents = f" in [{', '.join(sorted(entity.member_of))}]" if entity.member_of else ""
    attributes = _record(entity.attributes, optional=False) if entity.attributes else "{}"
    return f"entity {entity.name}{parents} {attributes}{' tags String' if entity.tagged else ''};"


def _action_line(action: ActionTerm, facts: Mapping[str, AttributeTerm]) -> str:
    groups = ", ".join(f'Action::"{name}"' for name in sorted(action.groups))
    context = _record((facts[name] for name in sorted(set(action.context))), optional=True)
    return (
        f'action "{action.name}"{f" in [{groups}]" if groups else ""} appliesTo {{ '
        f"principal: [{', '.join(sorted(action.principals))}], "
        f"resource: [{', '.join(sorted(action.resources))}], context: {context} }};"
    )


def _record(attributes: Iterable[AttributeTerm], *, optional: bool) -> str:
    mark = "?" if optional else ""
    return "{" + ", ".join(f'"{a.name}"{mark}: {_type(a)}' for a in attributes) + "}"


def _type(attribute: AttributeTerm) -> str:
    if isinstance(attribute.type, str):
        return attribute.type
    return _record(attribute.type, optional=True)


def _shape(action: ActionTerm, facts: Mapping[str, AttributeTerm]) -> ActionShape:
    own = {name: facts[name] for name in action.context}
    return ActionShape(
        principals=frozenset(action.principals),
        resources=frozenset(action.resources),
        facts=own,
        checks={name: _check_of(fact) for name, fact in own.items()},
    )


def _check_of(attribute: AttributeTerm) -> Callable[[object], bool]:
    if isinstance(attribute.type, str):
        return _CHECKS[attribute.type]
    inner = {part.name: _check_of(part) for part in attribute.type}

    def is_record(value: object) -> bool:
        if not isinstance(value, (dict, Mapping)):  # an abstract class is slow to ask
            return False
        for name, item in value.items():  # noqa: SIM110 - without a call for each
            if name not in inner or not inner[name](item):
                return False
        return True

    return is_record


def _check(terms: Terms) -> None:
    entities = {entity.name for entity in terms.entities}
    groups = {group.name for group in terms.groups}
    facts = {fact.name for fact in terms.facts}
    every: list[Any] = [*terms.entities, *terms.groups, *terms.facts, *terms.actions]
    for term in every:
        _check_name(term.name)
    for attributes in (terms.facts, *(entity.attributes for entity in terms.entities)):
        for attribute in attributes:
            _check_type(attribute)
    for fact in terms.facts:
        _check_unclaimed(() if isinstance(fact.type, str) else fact.type)
    for entity in terms.entities:
        _check_unclaimed(entity.attributes)
        _check_known(entity.name, entity.member_of, entities)
    for action in terms.actions:
        if action.request_kind not in REQUEST_KINDS or action.name in groups:
            raise VocabularyError(f"action {action.name}: its request kind is unknown")
        if not action.principals or not action.resources:
            raise VocabularyError(
                f"action {action.name}: it applies to no principal or resource type"
            )
        _check_known(action.name, (*action.principals, *action.resources), entities)
        _check_known(action.name, action.groups, groups)
        _check_known(action.name, action.context, facts)


def _check_known(name: str, words: Iterable[str], known: set[str]) -> None:
    for word in words:
        if word not in known:
            raise VocabularyError(f"{name}: it refers to {word!r}, which is not declared")


def _check_name(name: str) -> None:
    if _IDENTIFIER.match(name) is None or name in _RESERVED:
        raise VocabularyError(f"{name!r}: this is not a valid name")


def _check_unclaimed(attributes: Iterable[AttributeTerm]) -> None:
    """A claim stands in a request: what the gateway knows of an entity is no claim."""
    for attribute in attributes:
        if attribute.claimed:
            raise VocabularyError(
                f"{attribute.name}: only a fact of a request can be marked as claimed"
            )
        if not isinstance(attribute.type, str):
            _check_unclaimed(attribute.type)


def _check_type(attribute: AttributeTerm) -> None:
    _check_name(attribute.name)
    if isinstance(attribute.type, str):
        if attribute.type not in VALUE_TYPES:
            raise VocabularyError(f"{attribute.name}: {attribute.type!r} is not a type")
        return
    for part in attribute.type:
        _check_type(part)


def _unite_facts(old: AttributeTerm, new: AttributeTerm) -> AttributeTerm:
    claimed = old.claimed or new.claimed
    if evolve(old, claimed=claimed) != evolve(new, claimed=claimed):
        raise VocabularyError(f"fact {old.name}: it is declared twice, with different meanings")
    return evolve(old, claimed=claimed)


def _unite_entities(old: EntityTerm, new: EntityTerm) -> EntityTerm:
    attributes = {attribute.name: attribute for attribute in old.attributes}
    for attribute in new.attributes:
        if attributes.setdefault(attribute.name, attribute) != attribute:
            raise VocabularyError(
                f"entity {old.name}: {attribute.name} is declared twice, with different meanings"
            )
    return evolve(
        old,
        attributes=tuple(attributes.values()),
        member_of=_union(old.member_of, new.member_of),
        tagged=old.tagged or new.tagged,
    )


def _unite_actions(old: ActionTerm, new: ActionTerm) -> ActionTerm:
    if old.request_kind != new.request_kind:
        raise VocabularyError(f"action {old.name}: it is declared with two request kinds")
    return evolve(
        old,
        principals=_union(old.principals, new.principals),
        resources=_union(old.resources, new.resources),
        groups=_union(old.groups, new.groups),
        context=_union(old.context, new.context),
    )


def _union(old: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*old, *new)))


def _named(word: str, name: str) -> str:
    return f"{word}:{name}" if _IDENTIFIER.match(name) else word
