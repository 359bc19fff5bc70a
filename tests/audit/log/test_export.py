"""A line of an export is the JSON of its record and of our members, whatever the record says."""

from __future__ import annotations

import json
from typing import Any

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.log.covered import CoveredRow
from svc.audit.log.export import json_line
from svc.audit.log.show import as_json
from svc.audit.log.verify import ChainFault
from svc.model.audit.ledger import ChainRow, PersonalValue
from tests.support.examples import examples

_NAMES = st.sampled_from(
    [
        "a",
        "event",
        "g",
        "hash2",
        "node_id",
        "outcome",
        "p",
        "r",
        "sf",
        "z",
        ",",
        ":",
        "}",
        'a"',
        "é",
    ]
) | st.text(max_size=3)
_TEXTS = st.sampled_from(
    ['"', ',"z":', "a,", ":", "\x7f", "é", "\U0001f600", "\\", "\0"]
) | st.text(max_size=6)
_VALUES: st.SearchStrategy[Any] = st.recursive(
    _TEXTS | st.integers(-9, 9) | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3),
    max_leaves=6,
)
_PERSONAL = st.lists(
    st.builds(PersonalValue, path=_TEXTS, salt=st.binary(max_size=2), value=_TEXTS), max_size=2
)
_OURS = {"form", "hash", "origin_signature", "personal", "prev_hash", "seq"}


class LineTests(SynchronousTestCase):
    """Members are put between those of the stored text where that can be done."""

    @settings(max_examples=examples(300), deadline=None)
    @given(
        record=st.dictionaries(_NAMES, _VALUES, max_size=8),
        personal=_PERSONAL,
        signature=st.binary(max_size=3),
    )
    def test_any(
        self, record: dict[str, Any], personal: list[PersonalValue], signature: bytes
    ) -> None:
        """Every record gives the line that encoding all members together gives."""
        record = {name: value for name, value in sorted(record.items()) if name not in _OURS}
        entry = entry_of(record, personal, signature)
        line = json_line(entry)
        found = json.loads(line)
        self.assertEqual(line, as_json(found))
        self.assertEqual({name: found[name] for name in found if name not in _OURS}, record)
        self.assertEqual(
            [found["seq"], found["hash"], found["prev_hash"]],
            [7, bytes(32).hex(), bytes(range(32)).hex()],
        )
        told = [[one["path"], one["salt"], one["value"]] for one in found.get("personal", ())]
        self.assertEqual(told, [[one.path, one.salt.hex(), one.value] for one in personal])
        self.assertEqual("personal" in found, bool(personal))
        self.assertEqual("origin_signature" in found, bool(signature))

    def test_not_canonical(self) -> None:
        """A record of which the stored text is not the canonical one has no line."""
        entry = entry_of({"a": 1, "z": 2}, [], b"")
        for text in (b'{"a":1, "z":2}', b'{"z":2,"a":1}', b'{"a":1,"z":2,"z":2}', b'{"a":1}'):
            row = evolve(entry.row, canonical=text)
            fault = self.assertRaises(ChainFault, json_line, evolve(entry, row=row))
            self.assertEqual((fault.seq, fault.kind), (7, "record"))


def entry_of(record: dict[str, Any], personal: list[PersonalValue], signature: bytes) -> CoveredRow:
    """A row that has this record."""
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    row = ChainRow(
        seq=7,
        prev_hash=bytes(range(32)),
        hash=bytes(32),
        canonical=text.encode(),
        signature=signature,
    )
    return CoveredRow(row, json.loads(text), personal)
