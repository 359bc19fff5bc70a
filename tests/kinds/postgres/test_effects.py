"""What statements do: a table of them, and texts made to hurt the parser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from time import process_time

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.kinds.postgres.effects import LONGEST, Complaint, NameChange, TextEffects, schema_of, union
from svc.kinds.postgres.walk import text_effects

TABLE = Path(__file__).with_name("statements.sql")
_NAME = re.compile(r'"[^"]*"(?:\."[^"]*")*|\S+')


def cases() -> Iterator[tuple[str, TextEffects, str]]:
    """Where in the table, what is expected, and the statement."""
    expected: TextEffects | None = None
    for number, line in enumerate(TABLE.read_text("utf-8").splitlines(), 1):
        where = f"{TABLE.name}:{number}: {line}"
        if line.startswith("-- is "):
            expected = read(line.removeprefix("-- is "))
        elif expected is not None and (line or expected.effects == frozenset()):
            yield where, expected, line


def read(line: str) -> TextEffects:
    """An expectation."""
    effects, *more = line.split("; ")
    found: dict[str, frozenset[str]] = {}
    for part in more:
        word, _, names = part.partition(" ")
        found[word] = frozenset(name.strip('"') if " " in name else name for name in named(names))
    return TextEffects(
        effects=frozenset(effects.split()) - {"nothing"},
        reads=found.get("reads", frozenset()),
        writes=found.get("writes", frozenset()),
        objects=found.get("names", frozenset()),
        functions=found.get("calls", frozenset()),
        incomplete="yes" if "incomplete" in found else "",
        executes=frozenset(name.encode() for name in found.get("executes", ())),
        changes=tuple(
            NameChange(name.encode(), None)
            for word in ("prepares", "frees")
            for name in found.get(word, ())
        ),
    )


def named(text: str) -> list[str]:
    """Names, of which one in quotes may hold a space."""
    return _NAME.findall(text)


class StatementTests(SynchronousTestCase):
    """The table."""

    def test_table(self) -> None:
        """Each statement has the effects that the table tells."""
        every = list(cases())
        wrong = []
        for where, expected, statement in every:
            found = text_effects(statement.encode("utf-8"))
            plain = evolve(
                found,
                incomplete="yes" if found.incomplete else "",
                ends_transaction=False,
                complaint=None,
                changes=tuple(evolve(one, effects=None) for one in found.changes),
            )
            if plain != expected:
                wrong.append(f"{where}\n  {found}")
        self.assertEqual(wrong, [])
        self.assertGreaterEqual(len(every), 390)

    def test_ends(self) -> None:
        """Only what does nothing but end a transaction is never denied."""
        for text in (b"COMMIT", b"end", b"ROLLBACK", b"abort; rollback", b"ROLLBACK TO p"):
            self.assertTrue(text_effects(text).ends_transaction, text)
        for text in (b"", b"BEGIN", b"COMMIT; DROP TABLE a", b"COMMIT PREPARED 'x'", b"RELEASE p"):
            self.assertFalse(text_effects(text).ends_transaction, text)

    def test_schemas(self) -> None:
        """The schema of a name; a question mark where the search path decides."""
        for name, schema in (("a", "?"), ("s.a", "s"), ("d.s.a", "s"), ('"a.b"', "?")):
            self.assertEqual(schema_of(name), schema)
        self.assertEqual(schema_of('"S.x"."a.b"'), '"S.x"')
        facts = text_effects(b"SELECT * FROM s.a, b").facts
        self.assertEqual(facts["schemas"], {"s", "?"})

    def test_prepared(self) -> None:
        """What a PREPARE's name stands for is what its text does; in the text's order."""
        found = text_effects(b"DEALLOCATE a; PREPARE a AS SELECT * FROM s.t; PREPARE b AS SELECT 1")
        first, second, third = found.changes
        self.assertEqual((first, third.name), (NameChange(b"a", None), b"b"))
        assert second.effects is not None
        self.assertEqual((second.name, second.effects.reads), (b"a", {"s.t"}))
        self.assertEqual((found.incomplete, found.reads), ("", {"s.t"}))

    def test_complaint(self) -> None:
        """What the parser says of a text that it cannot read, with its place in characters."""
        found = text_effects("SELECT 'é' FORM x y".encode()).complaint
        self.assertEqual(found, Complaint('syntax error at or near "x"', 17))
        self.assertIsNone(text_effects(b"SELECT 1\0").complaint)

    def test_union(self) -> None:
        """Of several texts that a name may stand for, all that any of them does."""
        found = union((text_effects(b"SELECT 1"), text_effects(b"DROP TABLE a")))
        self.assertEqual((found.effects, found.objects), ({"read", "ddl"}, {"a"}))
        self.assertTrue(union((text_effects(b"SELECT 1"), text_effects(b"DO ''"))).incomplete)


class BombTests(SynchronousTestCase):
    """Texts made to stop, to hold or to mislead the parser."""

    def test_bombs(self) -> None:
        """Each is refused, or read, in bounded time; none reaches the parser that could kill it."""
        for text in (
            b"SELECT 1" + b"+1" * 32_000,
            b"SELECT " + b"/*" * 100_000,
            b"SELECT " + b"/*" * 4000,
            b"SELECT " + b"+-" * 2000 + b"1",
            b"/*" + b"+" * 64 + b"*/ SELECT 1",
            b"SELECT " + b"(" * 5000 + b"1" + b")" * 5000,
            b"SELECT " + b"1+" * 4000 + b"1",
            b"WITH " + b",".join(b"a%d AS (SELECT 1)" % n for n in range(1000)) + b" SELECT 1",
            b"SELECT '" + b"x" * 10_000_000 + b"'",
            b"SELECT 1\0; DROP TABLE a",
            b"SELECT '\xff'",
            b"SELECT '\xc0\xaf'",
            b"SELECT " + b",".join(b"$%d" % n for n in range(1, 50_001)),
            b"SELECT " + b"+" * 64 + b"1",
        ):
            began = process_time()
            found = text_effects(text)
            self.assertLess(process_time() - began, 2.0, text[:40])
            self.assertTrue(found.incomplete, text[:40])

    def test_lines(self) -> None:
        """A line drawn in a comment hides no text, and costs no more than other bytes."""
        for line in ("-" * 8000, "-- " + "*" * 8000, "--" + "=" * 8000, "/" + "*" * 8000 + "/"):
            began = process_time()
            found = text_effects(f"{line}\nSELECT a FROM t".encode())
            self.assertLess(process_time() - began, 0.1, line[:4])
            self.assertEqual((found.incomplete, found.reads), ("", {"t"}), line[:4])

    def test_many_names(self) -> None:
        """A text that names more than a record may hold is not decided by a part of them."""
        text = b"SELECT " + b",".join(b"(SELECT 1 FROM t%d)" % n for n in range(300))
        self.assertEqual(text_effects(text).incomplete, "too_many_names")
        self.assertEqual(text_effects(text).reads, frozenset())

    @given(st.binary(max_size=200))
    def test_any_bytes(self, text: bytes) -> None:
        """Whatever the bytes are, there is an answer."""
        self.assertIsInstance(text_effects(text), TextEffects)

    @given(st.text(alphabet="SELECTFROMWHRabtu_ .,;()'\"$1=*/-", max_size=80))
    def test_nearly_sql(self, text: str) -> None:
        """Whatever the text is, what names a table is no complete read of nothing."""
        found = text_effects(text.encode("utf-8"))
        self.assertTrue(len(text) <= LONGEST)
        if not found.incomplete and "read" not in found.effects:
            self.assertEqual(found.reads, frozenset())
