"""Converts the description of a resource kind to terms of the vocabulary."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve

from svc.interfaces.kinds import KindTerms
from svc.model.policy.terms import ActionTerm, AttributeTerm, EntityTerm, Terms
from svc.policy.refusals import VocabularyError
from svc.policy.words import CORE, PEOPLE

_VIEW = next(action for action in CORE.actions if action.name == "view")
_CLAIMED = " claimed"
_KINDED = next(entity for entity in CORE.entities if entity.name == "TcpService")


def kind_terms(kind: KindTerms) -> Terms:
    """The terms of a kind's drop-in, to be joined with the core's.

    A fact or attribute the core already has is used as it is, except that a kind
    which only claims a fact makes it a claim in the whole vocabulary.  One of the
    kind's own is written with its class: ``"String personal"``.

    A parameter that policies may read is a fact of every action; one that the kind
    does not enforce is claimed.

    Raises:
        VocabularyError: for a fact of the kind's own without a class, or a parameter
            that is a fact of the kind's or of another type already.
    """
    core = {fact.name: fact for fact in CORE.facts}
    context = {**kind.context, **_of_parameters(kind, core)}
    own = tuple(_fact(name, spec) for name, spec in context.items() if name not in core)
    own += tuple(
        evolve(core[name], claimed=True)
        for name, spec in context.items()
        if name in core and _is_claimed(spec)
    )
    actions = tuple(
        ActionTerm(
            name=name,
            request_kind=request_kind,
            principals=PEOPLE,
            resources=(kind.entity_type,),
            help=_help(name),
            groups=() if name in kind.guarded else ("use",),
            context=(*_VIEW.context, *(fact for fact in context if fact not in _VIEW.context)),
        )
        for name, request_kind in kind.actions.items()
    )
    view = evolve(_VIEW, resources=(kind.entity_type,))
    return Terms(entities=(_entity(kind),), groups=(), facts=own, actions=(view, *actions))


def _of_parameters(kind: KindTerms, core: Mapping[str, AttributeTerm]) -> dict[str, str]:
    """The facts that parameters are, as :attr:`KindTerms.context` writes them."""
    found = {}
    for name, parameter in kind.parameters.items():
        if not parameter.fact:
            continue
        if name in kind.context or (name in core and core[name].type != "String"):
            raise VocabularyError(f"parameter {name}: there is another fact of this name")
        found[name] = f"String {parameter.fact}{'' if parameter.enforced else _CLAIMED}"
    return found


def _entity(kind: KindTerms) -> EntityTerm:
    known = next((e for e in CORE.entities if e.name == kind.entity_type), None)
    entity = known or evolve(_KINDED, name=kind.entity_type, help="A resource of this kind.")
    there = {attribute.name for attribute in entity.attributes}
    added = tuple(_fact(n, spec) for n, spec in kind.attributes.items() if n not in there)
    return evolve(entity, attributes=(*entity.attributes, *added))


def _help(action: str) -> str:
    known = next((each for each in CORE.actions if each.name == action), None)
    return "An action of this kind." if known is None else known.help


def _is_claimed(spec: str) -> bool:
    return spec.endswith(_CLAIMED)


def _fact(name: str, spec: str) -> AttributeTerm:
    claimed = _is_claimed(spec)
    type_, _, classified = spec.removesuffix(_CLAIMED).rpartition(" ")
    if classified not in ("public", "personal") or not type_:
        raise VocabularyError(
            f"fact {name}: write its type, then public or personal, then `claimed` if "
            "nothing enforces it"
        )
    return AttributeTerm(
        name=name,
        type=type_,  # type: ignore[arg-type]
        classified=classified,  # type: ignore[arg-type]
        help="A fact of this kind.",
        claimed=claimed,
    )
