"""Texts of one shape do the same, and nothing but plain statements has a shape."""

from __future__ import annotations

import re
from time import process_time

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.kinds.postgres.effects import LONGEST, Unreadable, parse_tree
from svc.kinds.postgres.shapes import shape_of
from svc.kinds.postgres.walk import Walk, text_effects
from tests.kinds.postgres.test_effects import cases

_DIGITS = re.compile(r"[0-9]+")
_TEXTS = [text for _, _, text in cases() if shape_of(text.encode())]
_TOKENS = """SELECT FROM a t1 s.b2 1 23 4.5 .6 7e8 0x9 1_0 ( ) , * - + <> = WHERE LIMIT ORDER BY
    lo_get CAST AS numeric INTO VALUES FOR UPDATE pg_settings UNION interval ; nextval"""
_WORDS = st.sampled_from(_TOKENS.split())


def effects(text: bytes) -> object:
    """What a text would do, read by itself; why not, where it cannot be read."""
    try:
        tree = parse_tree(text)
    except Unreadable as why:
        return str(why)
    walk = Walk()
    walk.run(tree.get("stmts", ()))
    return walk.found


class ShapeTests(SynchronousTestCase):
    """Held against the parser, which reads each text by itself."""

    def test_same_shape(self) -> None:
        """Statements of a client that writes its values into them."""
        one, two = b"SELECT a FROM t1 WHERE b = 7 ;", b"SELECT a FROM t1 WHERE b = 123456 ;"
        self.assertEqual(shape_of(one), shape_of(two))
        self.assertIs(text_effects(one), text_effects(two))
        for other in (b"SELECT a FROM t2 WHERE b = 7 ;", b"SELECT a FROM t1 WHERE b = 7.0 ;"):
            self.assertNotEqual(shape_of(one), shape_of(other))

    def test_no_shape(self) -> None:
        """What is quoted, commented, has parameters, or whose integers the grammar looks at."""
        for text in (
            "SELECT '1'",
            'SELECT 1 FROM "a"',
            "SELECT $1",
            "SELECT $a$1$a$",
            "SELECT 1 -- 2",
            "SELECT 1 /* 2 */",
            "SELECT CAST(1 AS float(1))",
            "SELECT 1; SELECT 2",
            "SET standard_conforming_strings = 1",
            "EXPLAIN SELECT 1",
            "WITH a AS (SELECT 1) SELECT 1",
            "SELECT 1\0",
            "SELECT \u0661",
            "FETCH 1 FROM c",
            "select1",
        ):
            self.assertIsNone(shape_of(text.encode()), text)

    def test_integers_alone(self) -> None:
        """Names, other numbers and integers past 32 bits stay as they are."""
        for text in ("SELECT a1", "SELECT 1.5, .5, 1e5, 0x5", "SELECT 4294967296", "SELECT 1_5"):
            self.assertEqual(shape_of(text.encode()), text.encode())
        self.assertEqual(shape_of(b"SELECT 1,-2,(3)"), b"SELECT 0,-0,(0)")

    @given(st.sampled_from(_TEXTS), st.data())
    def test_other_integers(self, text: str, data: st.DataObject) -> None:
        """Whatever integers are put into a statement of the table, the shape tells what it does."""
        self._same(text, data)

    @given(st.lists(_WORDS, max_size=12), st.data())
    def test_any_words(self, words: list[str], data: st.DataObject) -> None:
        """Likewise of any words in a row."""
        self._same(" ".join(["SELECT", *words]), data)

    def _same(self, text: str, data: st.DataObject) -> None:
        number = st.integers(0, 999_999_999).map(str)
        other = _DIGITS.sub(lambda _: data.draw(number), text)
        one, two = (each.encode() for each in (text, other))
        if shape_of(one) is not None and shape_of(one) == shape_of(two):
            self.assertEqual(effects(one), effects(two))

    def test_a_text_made_to_hurt(self) -> None:
        """A text that has no shape costs no more than a pass over it."""
        for text in (b"select " + b" " * LONGEST + b"'", b"select -" * (LONGEST // 8) + b"'"):
            begun = process_time()
            shape_of(text[:LONGEST] + b"'")
            self.assertLess(process_time() - begun, 0.1)
