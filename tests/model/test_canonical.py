"""Canonical JSON."""

from __future__ import annotations

import json
import random
from types import MappingProxyType

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Malformed
from svc.model.canonical import MAX_DEPTH, MAX_INTEGER, Json, decode, encode, is_shallow
from tests.support.examples import examples
from tests.support.proof import proves

KEYS = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=8)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-MAX_INTEGER, MAX_INTEGER)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4)
)


def shuffled(value: Json, chance: random.Random) -> Json:
    """The same value with the members of every object in another order."""
    if isinstance(value, dict):
        members = [(key, shuffled(item, chance)) for key, item in value.items()]
        chance.shuffle(members)
        return dict(members)
    if isinstance(value, list):
        return [shuffled(item, chance) for item in value]
    return value


def levels(value: Json) -> int:
    """How many objects and lists are within one another at most."""
    if not isinstance(value, (dict, list)):
        return 0
    within = value.values() if isinstance(value, dict) else value
    return 1 + max(map(levels, within), default=0)


class CanonicalTests(SynchronousTestCase):
    """One value has one text."""

    @given(VALUES)
    @settings(deadline=None)
    def test_comes_back(self, value: Json) -> None:
        """What is written is read back as the same value."""
        self.assertEqual(decode(encode(value)), value)

    @given(VALUES, st.integers())
    @settings(deadline=None)
    def test_order_of_keys_does_not_matter(self, value: Json, seed: int) -> None:
        """The order in which members were put in does not change the bytes."""
        self.assertEqual(encode(shuffled(value, random.Random(seed))), encode(value))

    @given(st.dictionaries(KEYS, VALUES, max_size=5))
    @settings(deadline=None)
    def test_any_mapping(self, value: dict[str, Json]) -> None:
        """A read-only view of an object has the bytes of the object."""
        self.assertEqual(encode(MappingProxyType(value)), encode(value))

    @given(st.data())
    @settings(max_examples=examples(300), deadline=None)
    def test_any_number(self, data: st.DataObject) -> None:
        """A number is read if it is within 2^53, whatever digits stand beside it and around it."""
        number = data.draw(
            st.integers(-(10**19), 10**19)
            | st.integers(0, 99).map(lambda more: MAX_INTEGER - 50 + more)
            | st.integers(0, 99).map(lambda more: 50 - MAX_INTEGER - more)
        )
        beside = data.draw(st.text("0123456789:,[ -", max_size=20))
        around = data.draw(st.sampled_from(["{}", "[{}]", "[7,{}]", '{{"a":{}}}', '{{"":[{}]}}']))
        text = f'["{beside}",{around.format(number)}]'.encode()
        if abs(number) > MAX_INTEGER:
            self.assertRaises(Malformed, decode, text)
        else:
            self.assertEqual(decode(text), json.loads(text))

    @given(VALUES, st.integers(0, 6))
    @settings(deadline=None)
    def test_levels(self, value: Json, most: int) -> None:
        """A value is shallow if none of its parts has more values around it."""
        self.assertEqual(is_shallow(value, most), levels(value) <= most)

    @given(st.binary(max_size=60))
    @settings(deadline=None)
    def test_any_bytes(self, data: bytes) -> None:
        """Bytes are either the canonical form of a value or refused."""
        try:
            value = decode(data)
        except Malformed:
            return
        self.assertEqual(encode(value), data)

    @proves("G-OPEN-12")
    def test_bytes_are_those_of_the_standard(self) -> None:
        """Strings are escaped as RFC 8785 says and members are sorted."""
        value: Json = {"b": '€$\x0f\nA\'B"\\\\"/', "a": [-1, True, None], "": "\x7f\u2028"}
        self.assertEqual(
            encode(value),
            b'{"":"\x7f\xe2\x80\xa8","a":[-1,true,null],'
            b'"b":"\xe2\x82\xac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}',
        )

    def test_refused_values(self) -> None:
        """Floats, NaN, bytes, large integers, odd keys and lone surrogates have no form."""
        odd: list[object] = [
            1.0,
            float("nan"),
            b"x",
            MAX_INTEGER + 1,
            -MAX_INTEGER - 1,
            {"é": 1},
            {"\n": 1},
            {1: 1},
            {"a": "\ud800"},
            {"a", "b"},
            object(),
        ]
        for value in odd:
            self.assertRaises(Malformed, encode, value)

    def test_refused_texts(self) -> None:
        """Doubled members, spaces, other number forms and trailing bytes are refused."""
        texts = (
            b'{"a":1,"a":1}',
            b'{"b":1,"a":1}',
            b"[1, 2]",
            b"1.0",
            b"1e3",
            b"-0",
            b"NaN",
            b"01",
            b'"\\u0041"',
            b'"\\/"',
            b"[1]x",
            b"",
            b"\xff",
            b'"\\ud800"',
            b'"\xed\xa0\x80"',
            b'"\n"',
            b"9007199254740992",
            b"9" * 5000,
            b"\xef\xbb\xbf1",
        )
        for text in texts:
            self.assertRaises(Malformed, decode, text)

    def test_depth_is_bounded(self) -> None:
        """Deep nesting is refused, both ways, without exhausting the stack."""
        deepest: Json = []
        for _ in range(MAX_DEPTH - 1):
            deepest = [deepest]
        self.assertEqual(decode(encode(deepest)), deepest)
        self.assertRaises(Malformed, encode, [deepest])
        self.assertRaises(Malformed, decode, b"[" * 200_000 + b"]" * 200_000)

    def test_size_is_bounded(self) -> None:
        """Text past the limit is refused before it is parsed."""
        self.assertEqual(decode(b'"' + b"a" * 8 + b'"', max_bytes=10), "a" * 8)
        self.assertRaises(Malformed, decode, b'"' + b"a" * 9 + b'"', max_bytes=10)
