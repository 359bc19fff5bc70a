"""A policy over each slice of entities that decisions were made over."""

from __future__ import annotations

import json
from collections import OrderedDict

from attrs import define, field

from svc.errors import SvcError
from svc.model.policy.access import Entity, entity_from_form
from svc.policy.engine import CompiledPolicy
from svc.policy.entities import slice_digest
from svc.policy.refusals import EntitiesRefused

MOST_SLICES = 4096
MAX_PLANS = 64
MAX_ANSWERS = 32
"""Of one slice: it holds one principal and one resource, and few facts are read of a request."""


def entities_of_slice(digest: str, text: str) -> tuple[Entity, ...] | None:
    """The entities of a slice as it is stored; None where it is not the one of that digest."""
    try:
        form = json.loads(text)
        entities = tuple(map(entity_from_form, form)) if isinstance(form, list) else ()
        return entities if slice_digest(entities) == digest else None
    except (ValueError, RecursionError, SvcError):
        return None


@define
class SlicedEngines:
    """The engines of one policy, each over one slice; those used last are kept.

    Attributes:
        base: The policy over no entities.
    """

    base: CompiledPolicy
    most: int = MOST_SLICES
    _kept: OrderedDict[str, CompiledPolicy] = field(factory=OrderedDict, init=False)

    def over(self, digest: str, entities: tuple[Entity, ...] | None) -> CompiledPolicy | None:
        """The engine over the slice of that digest; None where its entities are not known.

        Args:
            entities: Of the slice, where they are at hand; they are needed once.
        """
        found = self._kept.get(digest)
        if found is not None:
            self._kept.move_to_end(digest)
            return found
        if entities is None:
            return None
        try:
            made = self.base.with_entities(
                entities, 0, max_plans=MAX_PLANS, max_answers=MAX_ANSWERS
            )
        except EntitiesRefused:
            return None  # of a vocabulary that is not in use any more
        self._kept[digest] = made
        if len(self._kept) > self.most:
            self._kept.popitem(last=False)
        return made

    def has(self, digest: str) -> bool:
        """Whether the entities of that slice need not be given."""
        return digest in self._kept
