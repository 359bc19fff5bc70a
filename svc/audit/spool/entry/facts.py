"""Writes the facts of a request as its entry says them, where they are as nearly all are.

Requests of a kind have facts of the same few names.  What is written of a name alone, and whether
its value is hidden, is looked up once; what is left for each request is its values.  Nothing of a
value is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from attrs import define, field

from svc.audit.log.record import PERSONAL
from svc.model.audit.hidden import hashed_path
from svc.model.audit.plain_json import quoted, write_plain
from svc.model.canonical import MAX_INTEGER
from svc.model.policy.terms import AttributeTerm

ROOT = "request.context"
_MOST_SHAPES = 128
_IS_PUBLIC, _IS_HIDDEN, _IS_RECORD = 0, 1, 2
_SETS = (tuple, frozenset, list, set)
_RECORDS = frozenset([MappingProxyType, dict])

_TEXTS = frozenset([str])

Hidden = tuple[str, str, bytes]
"""A value that is hidden: its path, its text, and what is hashed of it after the salt."""

_Fact = tuple[str, str, int, str, bytes, Mapping[str, AttributeTerm] | None]
"""Name, what stands before its value, how that is written, path, what is hashed before the value,
and the members of a record of which each is written by itself."""


@define(eq=False)
class FactTexts:
    """See the module.

    Attributes:
        facts: The context facts of the vocabulary, by name.
    """

    facts: Mapping[str, AttributeTerm]
    _shapes: dict[tuple[str, tuple[str, ...]], Sequence[_Fact]] = field(
        factory=dict, init=False, repr=False
    )

    def write(
        self, begin: str, context: Mapping[str, Any]
    ) -> tuple[list[str], str, list[Hidden]] | None:
        """The facts of a request, behind *begin*.

        Returns:
            Texts that end where a hash is to stand, what follows the last of them, and what is
            hidden; None where a fact is not classified, or not as nearly all are.
        """
        pieces: list[str] = []
        hidden: list[Hidden] = []
        end = self._written(begin, ROOT, context, self.facts, pieces, hidden)
        return None if end is None else (pieces, end, hidden)

    def _written(
        self,
        text: str,
        path: str,
        values: Mapping[str, Any],
        facts: Mapping[str, AttributeTerm] | None,
        pieces: list[str],
        hidden: list[Hidden],
    ) -> str | None:
        if not values:
            return text + "{}"
        names = path, tuple(values)
        shape = self._shapes.get(names) or self._shape(names, facts)
        if shape is None:
            return None
        said: str | None
        for name, before, how, at, hashed, members in shape:
            value = values[name]
            kind = type(value)
            if kind is str and value.isascii():
                said = quoted(value)
            elif kind is int and -MAX_INTEGER <= value <= MAX_INTEGER:
                said = str(value)
            elif kind in _RECORDS and how != _IS_PUBLIC and path == ROOT:
                begin = "" if how == _IS_HIDDEN else text + before
                said = self._written(begin, at, value, members, pieces, hidden)
            else:
                said = _said(value)
            if said is None or (how == _IS_RECORD and kind not in _RECORDS):
                return None
            if how == _IS_HIDDEN:
                pieces.append(f'{text}{before}{{"{PERSONAL}":"')
                text = '"}'
                hidden.append((at, said, hashed + said.encode()))
            else:
                text = said if how == _IS_RECORD else text + before + said
        return text + "}"

    def _shape(
        self, names: tuple[str, tuple[str, ...]], facts: Mapping[str, AttributeTerm] | None
    ) -> Sequence[_Fact] | None:
        """How facts of these names are written, in their order; None where one is unknown.

        Args:
            facts: None within a record that is hidden as a whole.
        """
        above, own = names
        if not all(_is_name(name) if facts is None else name in facts for name in own):
            return None
        found, mark = list[_Fact](), "{"
        for name in sorted(own):
            term, path = facts[name] if facts is not None else None, f"{above}.{name}"
            how, members = _IS_PUBLIC, None
            if term is not None and term.classified != "public":
                how = _IS_HIDDEN
            elif term is not None and term.members is not None:
                how, members = _IS_RECORD, term.members
            before = f"{mark}{write_plain(name)}:"
            found.append((name, before, how, path, hashed_path(path), members))
            mark = ","
        if len(self._shapes) >= _MOST_SHAPES:
            self._shapes.clear()
        self._shapes[names] = found
        return found


def _said(value: object) -> str | None:
    """A flag or texts, as they are written; None for anything else."""
    if type(value) is bool:
        return "true" if value else "false"
    if isinstance(value, _SETS) and _TEXTS.issuperset(map(type, value)):
        said = f"[{','.join(map(quoted, sorted(set(value))))}]"
        return said if said.isascii() else None
    return None


def _is_name(name: object) -> bool:
    return type(name) is str and name.isascii() and name.isidentifier()
