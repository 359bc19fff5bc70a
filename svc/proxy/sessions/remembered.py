"""What a gated session's requests were decided, as long as it is decided by the same (ADR 53)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Generic, TypeVar

from attrs import define, field

from svc.model.policy.access import ContextValue

MOST = 64
"""Decisions that one session remembers."""

_T = TypeVar("_T")


@define(eq=False)
class RememberedDecisions(Generic[_T]):
    """Of one session, for its policy, entities and second: a new basis forgets all of them.

    Facts are compared by identity, so only facts that nobody changes are remembered.
    """

    _basis: tuple[int, ...] = ()
    _found: dict[tuple[str, int], tuple[Mapping[str, ContextValue], _T]] = field(factory=dict)

    def find(
        self, basis: tuple[int, ...], action: str, facts: Mapping[str, ContextValue]
    ) -> _T | None:
        """What was decided on these facts; None: nothing that still counts."""
        if basis != self._basis:
            self._basis = basis
            self._found.clear()
            return None
        known = self._found.get((action, id(facts)))
        return None if known is None or known[0] is not facts else known[1]

    def keep(
        self, basis: tuple[int, ...], action: str, facts: Mapping[str, ContextValue], decided: _T
    ) -> None:
        """Remember it, if these facts cannot change."""
        if basis == self._basis and type(facts) is MappingProxyType and len(self._found) < MOST:
            self._found[action, id(facts)] = facts, decided
