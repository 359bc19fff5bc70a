"""The contents of a signed snapshot: vocabulary, policies and entities, as bytes.

The same content gives the same bytes, so a digest names it.  Authority sends
a whole bundle once and entity deltas after it; who applies a delta compares
the digest of what comes out.  Signatures are others' business.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from attrs import evolve, field, frozen

from svc.errors import Malformed
from svc.model.policy.access import (
    Entity,
    EntityUid,
    canonical,
    entity_form,
    entity_from_form,
    uid_from_form,
)
from svc.model.policy.terms import Terms
from svc.policy.compile import compile_policy
from svc.policy.engine import CompiledPolicy
from svc.policy.entities import by_uid, in_order
from svc.policy.prescan import PolicyLimits
from svc.policy.terms_json import terms_form, terms_from_form
from svc.policy.vocabulary import vocabulary_of_terms

FORMAT = 1
MAX_BUNDLE = 64 * 1024 * 1024


_terms_form = lru_cache(maxsize=2)(terms_form)
"""Only read here: what is remembered must not change."""


def _ordered(uids: Iterable[EntityUid]) -> tuple[EntityUid, ...]:
    return tuple(sorted(set(uids)))


@frozen(hash=False)
class PolicyBundle:
    """Everything an engine is made from."""

    policy_version: int
    entity_revision: int
    terms: Terms
    policy_text: str
    entities: tuple[Entity, ...] = field(converter=in_order)


@frozen(hash=False)
class EntityDelta:
    """From one revision of the entities to a later one."""

    from_revision: int
    to_revision: int
    upserts: tuple[Entity, ...] = field(converter=in_order)
    removals: tuple[EntityUid, ...] = field(converter=_ordered)


def encode_bundle(bundle: PolicyBundle) -> bytes:
    """The canonical bytes of *bundle*: its entities, whose texts are made already, come first."""
    rest = canonical(
        {
            "format": FORMAT,
            "policy_version": bundle.policy_version,
            "entity_revision": bundle.entity_revision,
            "schema_digest": vocabulary_of_terms(bundle.terms).digest,
            "terms": _terms_form(bundle.terms),
            "policy_text": bundle.policy_text,
        }
    )
    return b'{"entities":[' + b",".join(one.text for one in bundle.entities) + b"]," + rest[1:]


def decode_bundle(data: bytes) -> PolicyBundle:
    """The bundle that :func:`encode_bundle` wrote.

    Raises:
        Malformed: too long, malformed, or of another schema than it says.
        EntitiesRefused: an entity stands twice.
    """
    form = _fields(
        data,
        {"format", "policy_version", "entity_revision", "schema_digest", "terms"}
        | {"policy_text", "entities"},
    )
    terms = terms_from_form(form["terms"])
    if vocabulary_of_terms(terms).digest != form["schema_digest"]:
        raise Malformed("policy bundle: its schema differs from the digest that it names")
    if not isinstance(form["policy_text"], str):
        raise Malformed("policy bundle: the policy is not UTF-8 text")
    return PolicyBundle(
        policy_version=_whole(form["policy_version"]),
        entity_revision=_whole(form["entity_revision"]),
        terms=terms,
        policy_text=form["policy_text"],
        entities=_list(form["entities"], entity_from_form),
    )


def engine_of(bundle: PolicyBundle, limits: PolicyLimits | None = None) -> CompiledPolicy:
    """The engine of a bundle.  Blocks: call it in a thread.

    Raises:
        PolicyRefused: the text is refused.
        EntitiesRefused: the entities are.
        VocabularyError: the terms do not go together.
    """
    return compile_policy(
        bundle.policy_text,
        vocabulary_of_terms(bundle.terms),
        bundle.entities,
        bundle.policy_version,
        bundle.entity_revision,
        limits,
    )


def diff(
    old: Iterable[Entity], new: Iterable[Entity], from_revision: int, to_revision: int
) -> EntityDelta:
    """What leads from the entities *old* to *new*."""
    before, after = by_uid(old), by_uid(new)
    return EntityDelta(
        from_revision=from_revision,
        to_revision=to_revision,
        upserts=[entity for uid, entity in after.items() if before.get(uid) != entity],
        removals=before.keys() - after.keys(),
    )


def apply(bundle: PolicyBundle, delta: EntityDelta) -> PolicyBundle:
    """The bundle after *delta*.

    Raises:
        Malformed: the delta begins at another revision, or removes what is not there.
    """
    if bundle.entity_revision != delta.from_revision:
        raise Malformed("entity delta: it starts from a different revision")
    entities = by_uid(bundle.entities)
    for uid in delta.removals:
        if entities.pop(uid, None) is None:
            raise Malformed("entity delta: it removes an entity that does not exist")
    entities.update(by_uid(delta.upserts))
    return evolve(bundle, entity_revision=delta.to_revision, entities=entities.values())


def encode_delta(delta: EntityDelta) -> bytes:
    """The canonical bytes of *delta*."""
    return canonical(
        {
            "format": FORMAT,
            "from_revision": delta.from_revision,
            "to_revision": delta.to_revision,
            "upserts": [entity_form(entity) for entity in delta.upserts],
            "removals": [uid.form() for uid in delta.removals],
        }
    )


def decode_delta(data: bytes) -> EntityDelta:
    """The delta that :func:`encode_delta` wrote.

    Raises:
        Malformed: too long or malformed.
    """
    form = _fields(data, {"format", "from_revision", "to_revision", "upserts", "removals"})
    return EntityDelta(
        from_revision=_whole(form["from_revision"]),
        to_revision=_whole(form["to_revision"]),
        upserts=_list(form["upserts"], entity_from_form),
        removals=_list(form["removals"], uid_from_form),
    )


def _fields(data: bytes, names: set[str]) -> Mapping[str, Any]:
    if len(data) > MAX_BUNDLE:
        raise Malformed(f"policy bundle: it is longer than {MAX_BUNDLE} bytes")
    try:
        form = json.loads(data)
    except (ValueError, RecursionError):
        raise Malformed("policy bundle: it is not JSON") from None
    if not isinstance(form, dict) or set(form) != names or form["format"] != FORMAT:
        raise Malformed("policy bundle: it is malformed")
    return form


def _whole(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 53:
        raise Malformed("policy bundle: a number is malformed")
    return value


def _list(items: Any, read: Any) -> list[Any]:
    if not isinstance(items, list):
        raise Malformed("policy bundle: a list is malformed")
    return [read(item) for item in items]
