"""One check: its id, the roles it is of, and the function that makes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from attrs import field, frozen

from svc.model.doctor import CATEGORIES, Finding
from svc.ops.doctor.context import CheckContext


@frozen
class Check:
    """One check.

    Attributes:
        id: ``category.name``; a label of a metric, so it is fixed at build time.
        roles: Whose; the others do not have it.
        find: Gives what there is to say; whatever it raises becomes a finding.
        needs_state: Whether it is not made without the state directory; a missing one is told once.
    """

    id: str = field()
    roles: tuple[str, ...]
    find: Callable[[CheckContext], Iterable[Finding]]
    needs_state: bool = False

    @id.validator
    def _of_a_category(self, _: object, value: str) -> None:
        category, _dot, name = value.partition(".")
        if category not in CATEGORIES or not name:
            raise ValueError(value)
