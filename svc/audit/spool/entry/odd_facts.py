"""Writes the facts of a request whatever they are, one by one, and says why they cannot be kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, field

from svc.audit.log.record import MAX_TEXT, PERSONAL, is_storable
from svc.audit.spool.entry.facts import ROOT, Hidden
from svc.errors import Malformed
from svc.model.audit.hidden import hashed_of
from svc.model.audit.plain_json import quoted, write_plain
from svc.model.audit.request import RequestRecord
from svc.model.canonical import Json, encode
from svc.model.policy.access import context_form
from svc.model.policy.terms import AttributeTerm

FACTS = ',"context":'
"""Stands before the facts of an entry."""


@define
class _Text:
    """The text of an entry as it is written.

    Attributes:
        pieces: Each ends where a hash is to stand.
        end: What follows the last of them.
        hidden: The values that are hashed.
    """

    pieces: list[str] = field(factory=list)
    end: str = ""
    hidden: list[Hidden] = field(factory=list)

    def add(self, path: str, values: Mapping[str, Any], facts: Mapping[str, AttributeTerm]) -> None:
        """Write facts, as ``context_form`` gave them; those that are personal are hidden.

        What it gave are texts, numbers, flags, lists of texts, and records.

        Raises:
            Malformed: one is not classified.
        """
        mark, end = "{", self.end
        for name, value in values.items():
            term = facts.get(name)
            if term is None:
                raise Malformed(f"{path}.{name} is not classified")
            end += f"{mark}{quoted(name)}:"
            mark = ","
            kind = type(value)
            if term.classified != "public":
                self.pieces.append(f'{end}{{"{PERSONAL}":"')
                end = '"}'
                said = quoted(value) if kind is str else encode(value).decode()
                where = f"{path}.{name}"
                self.hidden.append((where, said, hashed_of(where, said)))
            elif kind is str:
                end += quoted(value)
            elif kind is int:
                end += str(value)
            elif kind is list:
                end += f"[{','.join(map(quoted, value))}]"
            elif kind is not dict:
                end += write_plain(value)
            elif term.members is not None:
                self.end = end
                self.add(f"{path}.{name}", value, term.members)
                end = self.end
            else:
                raise Malformed(f"{path}.{name} contains a record that is not classified")
        self.end = end + "}" if values else end + "{}"


def written_alone(
    begin: str, record: RequestRecord, facts: Mapping[str, AttributeTerm]
) -> tuple[list[str], str, list[Hidden]]:
    """The entry of a record up to its decision: with the facts as replay wants them.

    Without them, where they cannot be kept so.

    Args:
        begin: The entry up to its facts.
        facts: The context facts of the vocabulary, by name.

    Raises:
        Malformed: a fact is not classified; or it was allowed, and cannot be kept exactly.
    """
    try:
        form: dict[str, Json] | None = context_form(record.request.context)
    except Malformed:
        form = None
    if form is not None:
        text = _Text(end=begin)
        try:
            text.add(ROOT, form, facts)
            is_kept = is_short(text.pieces, text.end, text.hidden) or is_storable(form)
        except Malformed:
            if is_storable(form):
                raise
            is_kept = False
        if is_kept:
            return text.pieces, text.end, text.hidden
    if record.decision == "allow":
        raise Malformed("an allowed request cannot be recorded exactly")
    return [], begin.removesuffix(FACTS), []


def is_short(pieces: Sequence[str], end: str, hidden: Sequence[Hidden]) -> bool:
    """Whether no text in an entry can be too long to be kept, or hold NUL."""
    text = "".join([*pieces, end, *[value for _, value, _ in hidden]])
    return len(text) <= MAX_TEXT and "\\u0000" not in text
