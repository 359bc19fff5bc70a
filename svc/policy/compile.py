"""Compiles a policy text to an engine, or refuses it with a reason.

Everything that can be wrong with a text is found here, in one order: size,
depth, syntax, names, types.  The guard's child process runs the same function
first, so that a text which would end the process ends only the child.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from cedarpy import PolicySet, ValidationError, pst, validate_policies

from svc.model.policy.access import Entity
from svc.policy.claims import claims_read
from svc.policy.engine import CompiledPolicy
from svc.policy.evaluation import parse_schema
from svc.policy.places import PolicyLocations
from svc.policy.prescan import PolicyLimits, check_shape
from svc.policy.refusals import DUPLICATE_ID, INVALID, TOO_DEEP, TOO_LARGE, UNNAMED, refused
from svc.policy.requestable import check_requestable
from svc.policy.slices import SliceIndex
from svc.policy.vocabulary import Vocabulary

_POLICY_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}\Z")
_POSITIONAL = re.compile(r"policy(\d+)\Z")
_SUBJECT = re.compile(r'Action::"[^"]*"|entity type `[^`]*`')
"""For what a fault of meaning was found, where it is found for each of many."""

_SHOWN = 5


def compile_policy(
    text: str,
    vocabulary: Vocabulary,
    entities: Iterable[Entity],
    version: int,
    revision: int = 0,
    limits: PolicyLimits | None = None,
) -> CompiledPolicy:
    """The engine of one policy version over one revision of the entities.

    Blocks (about 0.2 s for a thousand policies): call it in a thread, and only
    with a text the guard let pass.  A permit that reads a fact which nothing
    enforces is left out of the engine, whose ``claims`` name it.

    Raises:
        PolicyRefused: with one of the reasons of ``svc.policy.refusals``.
        EntitiesRefused: *entities* do not fit the vocabulary.
    """
    policies = read_policies(text, vocabulary, limits or PolicyLimits())
    claims = claims_read(policies, vocabulary)
    without_effect = {claim.policy for claim in claims if claim.is_permit}
    effective = {name: one for name, one in policies.items() if name not in without_effect}
    index = SliceIndex(effective, vocabulary.members)
    return CompiledPolicy(
        version=version,
        revision=revision,
        vocabulary=vocabulary,
        index=index,
        entities=entities,
        claims=claims,
    )


def read_policies(
    text: str, vocabulary: Vocabulary, limits: PolicyLimits
) -> Mapping[str, pst.Template]:
    """The policies under their ``@id``, validated strictly.

    Raises:
        PolicyRefused: with one of the reasons of ``svc.policy.refusals``.
    """
    check_shape(text, limits)
    nodes = _nodes(text)
    if nodes.templates:
        at = PolicyLocations(text).place_at(max(0, text.find("?")))
        raise refused(
            INVALID, f"policy: {at}: the slots ?principal and ?resource are not supported"
        )
    if len(nodes.static_policies) > limits.policies:
        raise refused(TOO_LARGE, f"policy: more than {limits.policies} policies")
    named = _by_name(nodes.static_policies, text)
    _validate(text, vocabulary, {old: new.id for old, new in named})
    policies = {policy.id: policy for _, policy in named}
    check_requestable(policies)
    return policies


def _nodes(text: str) -> pst.PolicySet:
    try:
        handle = PolicySet.from_str(text, release_gil=True)
    except ValueError as failure:
        raise refused(
            INVALID, f"policy: {PolicyLocations(text).syntax(_syntax)}: {failure}"
        ) from None
    try:
        return handle.to_pst()
    except ValueError as failure:
        if "nest" in str(failure) or "deep" in str(failure):
            raise refused(TOO_DEEP, "policy: it nests deeper than 100 levels") from None
        raise refused(INVALID, f"policy: {failure}") from None


def _syntax(text: str) -> str:
    """What Cedar's parser says of a text; empty where it takes it."""
    try:
        PolicySet.from_str(text, release_gil=True)
    except ValueError as failure:
        return str(failure)
    return ""


def _by_name(policies: Mapping[str, pst.Template], text: str) -> list[tuple[str, pst.Template]]:
    """Each positional id with its policy renamed to its ``@id``, in text order."""
    named: list[tuple[str, pst.Template]] = []
    seen: dict[str, int] = {}
    for old in sorted(policies, key=_position):
        policy, position = policies[old], _position(old) + 1
        name = policy.annotations.get("id", "")
        if not name:
            raise refused(UNNAMED, f"policy {_at(text, position)}: has no @id")
        if _POLICY_ID.match(name) is None:
            what = "its @id may contain only letters, digits and . _ : / -"
            raise refused(UNNAMED, f"policy {_at(text, position)}: {what}")
        if name in seen:
            what = f"its @id {name!r} is already used by policy {seen[name]}"
            raise refused(DUPLICATE_ID, f"policy {_at(text, position)}: {what}")
        seen[name] = position
        named.append((old, replace(policy, id=name)))
    return named


def _at(text: str, position: int) -> str:
    """Which policy it is, counted from 1, and where it begins."""
    return f"{position}: {PolicyLocations(text).policy(position - 1)}"


def _position(policy_id: str) -> int:
    found = _POSITIONAL.match(policy_id)
    return int(found[1]) if found else 0


def _validate(text: str, vocabulary: Vocabulary, names: Mapping[str, str]) -> None:
    result = validate_policies(text, parse_schema(vocabulary), release_gil=True)
    if result.validation_passed:
        return
    faults = _faults(PolicyLocations(text), names, result.errors)
    more = len(faults) - _SHOWN
    tail = f"; and {more} more" if more > 0 else ""
    raise refused(INVALID, f"policy {'; '.join(faults[:_SHOWN])}{tail}")


def _faults(
    places: PolicyLocations, names: Mapping[str, str], errors: Iterable[ValidationError]
) -> list[str]:
    """Each fault once, in order of the text.

    Cedar tells it again for every action and type that the policy may be about, in no order.
    """
    named = {_position(old): name for old, name in names.items()}
    found: dict[tuple[int, int, str], set[str]] = defaultdict(set)
    for error in errors:
        at = _position(error.policy_id)
        what = error.error.removeprefix(f"for policy `{error.policy_id}`, ")
        key = (at, places.offset(at, error.error), _SUBJECT.sub("", what))
        found[key].add(what)
    faults = []
    for (at, offset, _), same in sorted(found.items()):
        more = f" (and the same for {len(same) - 1} more)" if len(same) > 1 else ""
        faults.append(f"{named.get(at, 'text')}: {places.place_at(offset)}: {min(same)}{more}")
    return faults
