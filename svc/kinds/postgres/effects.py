"""What a text of SQL would do: its effects, the tables and functions it names.

Pure.  It guards the parser, which is C and can be killed by a text; what it cannot read, or does
not know, is *incomplete*.  Not decidable from a text, and not decided: views, rules, triggers,
bodies of functions, operators and casts of people's own, what a search path resolves a name to.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cached_property, lru_cache
from itertools import chain
from types import MappingProxyType
from typing import Any

from attrs import evolve, frozen
from postgast.native import lib

from svc.kinds.postgres.nodes import GRAMMAR

LONGEST = 8192
"""A longer text is not given to the parser in this process."""

MOST_NAMES = 256
"""Names of one sort that a text's facts may hold."""

LONGEST_NAME = 256

_OPERATORS = re.compile(rb"[-+*/<>=~!@#%^&|`?]{64,}")
"""The scanner's time may be quadratic in such a run."""

_BANNER = re.compile(rb"(?:--|/\*)?([-*=#~])\1*(?:\*?/)?")
"""It is not in those that people draw lines of in comments, wherever they stand."""


LONGEST_COMPLAINT = 200
"""Characters of what the parser says of a text."""


class Unreadable(Exception):
    """The text was not parsed.

    Args:
        why: A word, which holds no part of the text.
        complaint: What the parser says, in PostgreSQL's words; it may quote the text.
    """

    def __init__(self, why: str, complaint: Complaint | None = None) -> None:
        super().__init__(why)
        self.complaint = complaint


@frozen
class Complaint:
    """What is wrong with the form of a text.

    Attributes:
        position: Of the character that it is about, from 1; 0: none.
    """

    text: str
    position: int


@frozen
class NameChange:
    """What a text does to the name of a prepared statement.

    Attributes:
        effects: What its EXECUTE does from now on; None: the name is free.
    """

    name: bytes
    effects: TextEffects | None


@frozen
class TextEffects:
    """What a text would do.

    Attributes:
        effects: Words such as ``read``, ``write`` and ``ddl``.
        reads: Tables read; ``writes`` those written.  One that a statement both changes and shows
            is in both.
        objects: Whatever else is named: by DDL, by locks.
        incomplete: Why it may do more than this says; empty: it does not.
        ends_transaction: Whether it does nothing but end a transaction.
        executes: Names of the prepared statements that it runs; what those do is not in the rest.
        changes: What it does to such names, in its order.
        complaint: What the parser says, where it cannot read the text.
    """

    effects: frozenset[str] = frozenset()
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    objects: frozenset[str] = frozenset()
    functions: frozenset[str] = frozenset()
    incomplete: str = ""
    ends_transaction: bool = False
    executes: frozenset[bytes] = frozenset()
    changes: tuple[NameChange, ...] = ()
    complaint: Complaint | None = None

    @cached_property
    def size(self) -> int:
        """Bytes that it takes, roughly."""
        names = chain(self.reads, self.writes, self.objects, self.functions, self.executes)
        prepared = sum(one.effects.size for one in self.changes if one.effects is not None)
        return 1024 + sum(128 + len(name) for name in names) + prepared

    @cached_property
    def facts(self) -> Mapping[str, frozenset[str]]:
        """As policies read them; texts that would do the same have one object."""
        return _facts(self.effects, self.reads, self.writes, self.objects, self.functions)


@lru_cache(4096)
def _facts(
    effects: frozenset[str],
    reads: frozenset[str],
    writes: frozenset[str],
    objects: frozenset[str],
    functions: frozenset[str],
) -> Mapping[str, frozenset[str]]:
    named = reads | writes | objects
    return MappingProxyType(
        {
            "effects": effects,
            "objects": named,
            "tables_read": reads,
            "tables_written": writes,
            "schemas": frozenset(map(schema_of, named)),
            "functions": functions,
        }
    )


UNQUALIFIED = "?"
"""In place of a schema: the search path decides."""


def schema_of(name: str) -> str:
    """The schema of a name as :func:`dotted` wrote it."""
    parts = re.findall(r'"(?:[^"]|"")*"|[^."]+', name)
    return parts[-2] if len(parts) > 1 else UNQUALIFIED


def parse_tree(text: bytes, longest: int = LONGEST) -> Mapping[str, Any]:
    """The parse tree of a text.

    Args:
        longest: More than the default only where the process may be killed by it.

    Raises:
        Unreadable: a guard, or the parser, refused it.
    """
    if len(text) > longest:
        raise Unreadable("text_too_long")
    if b"\0" in text:
        raise Unreadable("text_with_nul")  # where the C parser would stop, unseen
    if any(not _BANNER.fullmatch(run[0]) for run in _OPERATORS.finditer(text)):
        raise Unreadable("run_of_operators")
    try:
        text.decode("utf-8", "strict")  # the parser does not look
    except UnicodeDecodeError:
        raise Unreadable("not_utf8") from None
    result = lib.pg_query_parse(text)
    try:
        if result.error:
            raise Unreadable("syntax", _complaint(result.error.contents))
        parsed: Mapping[str, Any] = json.loads(result.parse_tree)
    except RecursionError:
        raise Unreadable("nested_too_deeply") from None
    finally:
        lib.pg_query_free_parse_result(result)
    if parsed.get("version") != GRAMMAR:
        raise Unreadable("another_grammar")
    return parsed


def _complaint(error: Any) -> Complaint:
    said = (error.message or b"").decode("utf-8", "replace")
    text = " ".join(said.split())[:LONGEST_COMPLAINT]
    return Complaint("".join(c for c in text if c.isprintable()), max(0, error.cursorpos))


def union(many: tuple[TextEffects, ...]) -> TextEffects:
    """What texts may do of which one will run."""
    # Whatever these say of names was asked before.
    first, *others = many
    for other in others:
        first = evolve(
            first,
            effects=first.effects | other.effects,
            reads=first.reads | other.reads,
            writes=first.writes | other.writes,
            objects=first.objects | other.objects,
            functions=first.functions | other.functions,
            incomplete=first.incomplete or other.incomplete,
            ends_transaction=first.ends_transaction and other.ends_transaction,
        )
    return first
