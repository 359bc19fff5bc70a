"""Facts that are written in one pass are written as they are one by one."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from attrs import astuple, evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.spool.entry.facts import FactTexts, Hidden
from svc.audit.spool.entry.forms import EntryForm
from svc.errors import Malformed
from svc.model.audit.request import RequestRecord, SessionNumbers
from svc.model.policy.access import AccessRequest, EntityUid
from svc.model.policy.terms import AttributeTerm
from svc.policy.vocabulary import vocabulary
from tests.model.audit.test_batch import request
from tests.support.examples import examples


def _term(name: str, classified: Any, type: Any = "String") -> AttributeTerm:
    return AttributeTerm(name=name, type=type, classified=classified, help="A fact.")


_INNER = (
    _term("a", "public"),
    _term("b", "personal"),
    _term("deep", "public", (_term("a", "public"),)),
)
FACTS = {
    one.name: one
    for one in (
        _term("shown", "public"),
        _term("hidden", "personal"),
        _term("other", "personal"),
        _term("partly", "public", _INNER),
        _term("wholly", "personal", _INNER),
    )
}


class OneByOne(FactTexts):
    """Knows no facts that are as nearly all are."""

    def write(
        self, begin: str, context: Mapping[str, Any]
    ) -> tuple[list[str], str, list[Hidden]] | None:
        return None


class OddText(str):
    """A text that may say of itself what it likes."""


_TEXTS = (
    st.sampled_from(["", "a", 'a "b"\\', "\\u0000", "\0", "\x7f", "caf\xe9", "\u2028", "\ud800"])
    | st.sampled_from(["x" * 4000, "\0" * 700, "y" * 5000])
    | st.text(max_size=5)
    | st.just(OddText("odd"))
)
_NUMBERS = st.integers(-5, 5) | st.sampled_from(
    [2**53 - 1, 2**53, 2**53 + 1, 1 - 2**53, -(2**53), -(2**53) - 1]
)
_LISTS = st.lists(_TEXTS, max_size=3)
_SCALARS = (
    _TEXTS
    | _NUMBERS
    | st.booleans()
    | _LISTS
    | _LISTS.map(tuple)
    | _LISTS.map(frozenset)
    | _LISTS.map(set)
    | st.sampled_from([None, 1.5, b"x", [1], (None,), object()])
)
_NAMES = st.sampled_from(["a", "b", "deep"]) | st.sampled_from(["c", "caf\xe9", 'a"', "", "\ud800"])
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: (
        st.dictionaries(_NAMES, inner, max_size=3)
        | st.dictionaries(_NAMES, inner, max_size=3).map(MappingProxyType)
    ),
    max_leaves=6,
)
_CONTEXTS = st.dictionaries(
    st.sampled_from(list(FACTS)) | st.sampled_from([*FACTS, "unknown"]), _VALUES, max_size=5
)


def made(context: Mapping[str, Any], **more: Any) -> RequestRecord:
    """A request with these facts."""
    asked = AccessRequest(
        request_kind="db_query",
        principal=EntityUid("User", "b" * 26),
        action="redisRead",
        resource=EntityUid("RedisServer", "cache"),
        context=context,
    )
    return evolve(request(SessionNumbers("1" * 32)), request=asked, **more)


def formed(record: RequestRecord, facts: FactTexts) -> Any:
    """The parts of a form, or why there is none."""
    try:
        form = EntryForm.of(record, facts)
    except Malformed as refused:
        return refused.text
    return astuple(form, recurse=False)


class FactTextsTests(SynchronousTestCase):
    """One way against the other."""

    @given(st.lists(st.tuples(_CONTEXTS, st.sampled_from(["allow", "deny"])), max_size=4))
    @settings(max_examples=examples(400), deadline=None)
    def test_same(self, asked: list[tuple[dict[str, Any], str]]) -> None:
        """Whatever its facts are, a request has the same form, or the same refusal."""
        facts = FactTexts(FACTS)
        for context, decision in asked:
            record = made(context, decision=decision)
            self.assertEqual(formed(record, facts), formed(record, OneByOne(FACTS)))

    def test_nearly_all(self) -> None:
        """The facts that every request has, and those that are hidden, are written in one pass."""
        facts = FactTexts({one.name: one for one in vocabulary().terms.facts})
        reported = {"source_address": "192.0.2.7"}
        context = {"now": 1_900_000_000, "hour": 17, "weekday": 7, "proxy_reported": reported}
        asked = made(context).request
        written = facts.write("", asked.context)
        assert written is not None
        self.assertEqual(
            "?".join([*written[0], written[1]]),
            '{"hour":17,"now":1900000000,"proxy_reported":{"personal":"?"},"weekday":7}',
        )
        self.assertEqual([one[1] for one in written[2]], ['{"source_address":"192.0.2.7"}'])
        own = FactTexts(FACTS)
        self.assertIsNotNone(own.write("", {"partly": {"a": "x", "b": "y"}, "shown": ("b", "a")}))

    def test_bounded(self) -> None:
        """However many sets of names there are, few are kept."""
        facts = FactTexts({f"n{at}": _term(f"n{at}", "public") for at in range(300)})
        for at in range(300):
            self.assertIsNotNone(facts.write("", {f"n{at}": 1}))
        self.assertLess(len(facts._shapes), 200)
