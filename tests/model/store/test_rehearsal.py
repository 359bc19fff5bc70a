"""What a rehearsal says of a store before and after."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.model.store.rehearsal import WHOLE, RowChange, TableRows, row_changes, schema_changes

OBJECTS = st.dictionaries(
    st.sampled_from(["table a", "table b", "index c"]),
    st.dictionaries(st.sampled_from([WHOLE, "x", "y"]), st.sampled_from(["TEXT", "BLOB"])),
)


class SchemaTests(SynchronousTestCase):
    """Lines for what is another."""

    def test_each_kind_of_change(self) -> None:
        """New, gone, a column more, one less, one another, and only the definition."""
        before = {
            "table persons": {WHOLE: "a", "id": "TEXT", "name": "TEXT", "old": "BLOB"},
            "table gone": {"x": "TEXT"},
            "index of": {WHOLE: "ON persons(id)"},
            "table same": {WHOLE: "s", "x": "TEXT"},
        }
        after = {
            "table persons": {WHOLE: "b", "id": "BLOB", "name": "TEXT", "salt": "BLOB"},
            "table outbox": {WHOLE: "c", "origin": "TEXT", "n": "INTEGER"},
            "index of": {WHOLE: "ON persons(name)"},
            "table same": {WHOLE: "s", "x": "TEXT"},
            "index new": {WHOLE: "ON outbox(n)"},
        }
        self.assertEqual(
            schema_changes(before, after),
            (
                "+ index new",
                "~ index of: its definition differs",
                "- table gone",
                "+ table outbox (origin, n)",
                "~ table persons: id TEXT -> BLOB",
                "~ table persons: - old",
                "~ table persons: + salt BLOB",
            ),
        )

    @given(OBJECTS, OBJECTS)
    def test_says_something_exactly_where_it_differs(
        self, before: dict[str, dict[str, str]], after: dict[str, dict[str, str]]
    ) -> None:
        """Two schemas are the same if and only if there is nothing to say."""
        self.assertEqual(schema_changes(before, after) == (), before == after)
        self.assertEqual(schema_changes(before, before), ())


class RowTests(SynchronousTestCase):
    """Tables whose rows are others."""

    def test_each_kind_of_change(self) -> None:
        """New, gone, more rows, other values; a column that is new is not rewritten."""
        before = {
            "gone": TableRows(3, {"x": 1}),
            "gone empty": TableRows(0, {"x": 0}),
            "more": TableRows(1, {"x": 1}),
            "other": TableRows(2, {"x": 1, "y": 2, "z": 3}),
            "same": TableRows(2, {"x": 1}),
        }
        after = {
            "new": TableRows(5, {"x": 1}),
            "new empty": TableRows(0, {"x": 0}),
            "more": TableRows(2, {"x": 9}),
            "other": TableRows(2, {"x": 1, "y": 3, "w": 4}),
            "same": TableRows(2, {"x": 1, "y": 7}),
        }
        self.assertEqual(
            row_changes(before, after),
            (
                RowChange("gone", 3, None),
                RowChange(table="more", before=1, after=2, rewritten=("x",)),
                RowChange("new", None, 5),
                RowChange(table="other", before=2, after=2, rewritten=("y",)),
            ),
        )
