"""The personal values of a batch are judged by the pattern as they are one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.ingest.entries import JudgedEntry
from svc.audit.ingest.values import check_each_value, check_values
from svc.errors import Malformed
from svc.model.audit.batch import RequestValue
from svc.model.audit.hidden import salted_text, value_hash
from tests.support.examples import examples

PATHS = st.sampled_from(["request.context.a", "request.context.b.c", "request.context.d"])
FACTS = st.sampled_from(
    ['"192.0.2.7"', '"a\\"b"', '"\\\\"', '"caf\xe9"', "7", '["x"]', '{"k":"v"}']
)
NO_FACTS = st.sampled_from(["null", "1.5", '"a', "", " 7", '"a" ', "[[[[[[[[[[1]]]]]]]]]]"])
SNIPPETS = (*'"\\{}[],:01aF', " ", "\n", "\x7f", "\xe9", '\\"', "\\u0041", "00", '","', "],[", "-1")
CHANGES = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 3), st.sampled_from(SNIPPETS)), max_size=2
)
ENTRIES = st.lists(st.dictionaries(PATHS, FACTS, max_size=2), min_size=1, max_size=3)


def batch(entries: Sequence[dict[str, str]]) -> tuple[list[JudgedEntry], list[RequestValue]]:
    """Entries that hide these facts, and the values beside them."""
    judged, values = list[JudgedEntry](), list[RequestValue]()
    for index, facts in enumerate(entries):
        paths, salt = tuple(sorted(facts)), bytes([index]) * 16
        values += [
            RequestValue(index=index, path=path, salt=salt, value=facts[path]) for path in paths
        ]
        judged.append(
            JudgedEntry(
                session=0,
                session_n=index + 1,
                decision_id=f"{index:032x}",
                is_allowed=True,
                is_approved=False,
                first=0,
                end=0,
                frames="",
                second="",
                paths=paths,
                hidden=tuple(value_hash(path, salt, facts[path]) for path in paths),
            )
        )
    return judged, values


def written(values: Sequence[RequestValue]) -> str:
    """Their text."""
    texts = [f"[{one.index},{salted_text(one.path, one.salt, one.value)}]" for one in values]
    return f"[{','.join(texts)}]"


def said(check: Callable[[str, Sequence[JudgedEntry]], None], *what: object) -> str:
    """Why values are refused; empty where they are not."""
    try:
        check(*what)  # type: ignore[arg-type]
    except Malformed as refused:
        return refused.text
    return ""


class ValuesTests(SynchronousTestCase):
    """Against one by one."""

    @settings(max_examples=examples(500), deadline=None)
    @given(entries=ENTRIES, changes=CHANGES)
    def test_changed(
        self, entries: list[dict[str, str]], changes: list[tuple[float, int, str]]
    ) -> None:
        """Whatever is changed in their text, they are judged alike, and refused alike."""
        judged, values = batch(entries)
        text = written(values)
        self.assertEqual(said(check_values, text, judged), "")
        for place, out, new in changes:
            at = round(place * len(text))
            text = text[:at] + new + text[at + out :]
        self.assertEqual(
            said(check_values, text, judged), said(check_each_value, text, judged), text
        )

    @settings(max_examples=examples(200), deadline=None)
    @given(entries=ENTRIES, wrong=NO_FACTS, data=st.data())
    def test_no_facts(self, entries: list[dict[str, str]], wrong: str, data: st.DataObject) -> None:
        """What is rightly hashed and is no fact, or has two values in turn, is refused alike."""
        bad = data.draw(
            st.sampled_from([{"request.context.a": wrong}, {"request.context.d": wrong}])
        )
        judged, values = batch([*entries, bad])
        text = written(values)
        self.assertNotEqual(said(check_values, text, judged), "")
        for some in (text, written(values[::-1]), written(values[1:]), written(values * 2)):
            self.assertEqual(said(check_values, some, judged), said(check_each_value, some, judged))
