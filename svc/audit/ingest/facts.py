"""Checks that facts are as sealing leaves them: classified, and hidden where personal.  Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from attrs import frozen

from svc.audit.log.record import PERSONAL
from svc.errors import Malformed
from svc.model.canonical import Json
from svc.model.policy.terms import AttributeTerm

_DIGEST = re.compile(r"[0-9a-f]{64}\Z")


@frozen
class FactForm:
    """How a fact stands in a record.

    Attributes:
        is_personal: Whether it is hidden.
        members: Of a record that is no fact by itself; None for any other.
    """

    is_personal: bool
    members: Mapping[str, FactForm] | None

    @classmethod
    def of(cls, term: AttributeTerm) -> FactForm:
        """The form of a fact of the vocabulary."""
        members = fact_forms(term.type) if isinstance(term.type, tuple) else None
        return cls(term.classified != "public", members)


def fact_forms(terms: Iterable[AttributeTerm]) -> Mapping[str, FactForm]:
    """The forms of facts, by name."""
    return {term.name: FactForm.of(term) for term in terms}


def check_context(
    path: str, values: Mapping[str, Json], forms: Mapping[str, FactForm]
) -> list[str]:
    """Where facts are hidden, once they are as sealing left them (rule R9).

    Raises:
        Malformed: one is not classified, or is personal and not hidden.
    """
    hidden: list[str] = []
    for name, value in values.items():
        form = forms.get(name)
        if form is None:
            raise Malformed(f"audit row: {path}.{name} is not classified")
        if form.is_personal:
            require_marker(f"{path}.{name}", value)
            hidden.append(f"{path}.{name}")
        elif not isinstance(value, dict):
            continue
        elif form.members is not None:
            if value.keys() == {PERSONAL}:
                raise Malformed(f"audit row: {path}.{name} is public and must not be hidden")
            hidden += check_context(f"{path}.{name}", value, form.members)
        else:
            raise Malformed(f"audit row: {path}.{name} contains a record that is not classified")
    return hidden


def is_marker(value: Json) -> bool:
    """Whether *value* stands in a record for a personal value."""
    if type(value) is not dict or len(value) != 1:
        return False
    digest = value.get(PERSONAL)
    return isinstance(digest, str) and _DIGEST.match(digest) is not None


def require_marker(path: str, value: Json) -> None:
    """Return if *value* hides a personal value.  Raises Malformed."""
    if not is_marker(value):
        raise Malformed(f"audit row: {path} is personal and must be hidden")
