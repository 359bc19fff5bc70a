"""Entries that are recognised are those that would be read, whatever a batch says."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.spool.batches import OpenBatch
from svc.audit.spool.entry.forms import seal_request
from svc.errors import Malformed
from svc.model.audit.batch import ENTRIES, VALUES, RequestBatch, read_batch, without
from svc.model.audit.entry_tree import RequestPlace, entries_root, entry_leaves
from svc.model.audit.hidden import hidden_in_order
from svc.model.audit.ledger import PersonalValue
from svc.model.audit.request import RequestRecord, SessionNumbers
from svc.model.policy.access import AccessRequest, EntityUid
from svc.model.policy.terms import AttributeTerm
from svc.ops.replay import keyed
from svc.ops.replay.keyed import EntryKeys, KeyedBatch
from tests.support.examples import examples

PLACE = RequestPlace("p" * 26, "5" * 32, 7)


def fact(name: str, type: Any, classified: Any = "public") -> AttributeTerm:
    return AttributeTerm(name=name, type=type, classified=classified, help="a fact")


FACTS = {
    one.name: one
    for one in (
        fact("agent", "String", "personal"),
        fact("command", "String"),
        fact("now", "Long"),
        fact("objects", "Set<String>"),
        fact("reported", (fact("address", "String", "personal"), fact("now", "Long"))),
        fact("user", "String", "personal"),
    )
}
TEXTS = st.sampled_from(
    ["", "a", "b", '"now":5,', '{"personal":"', "\n", "\t", "é", '\\"', "0" * 64, '"time":"Z"},{']
)
CONTEXTS = st.fixed_dictionaries(
    {},
    optional={
        "agent": TEXTS,
        "command": TEXTS,
        "now": st.sampled_from([0, 5, -5, 1_900_000_000, 2**53 - 1]),
        "objects": st.lists(TEXTS, max_size=2).map(tuple),
        "reported": st.fixed_dictionaries({}, optional={"address": TEXTS, "now": st.just(5)}),
        "user": TEXTS,
    },
)
FRAGMENTS = (
    *("", ",", "}", "{", "]", "[", '"', "\\", "\n", "\t", " ", "0", "1", "},{", "],["),
    *('"now":5,', ',"now":5', '"now":', '{"personal":"', '"}', '"personal":"a"', "0" * 64),
    *('"decision_id":', '"range":[0,1],', ',"range":[0,1]', ',"reason":"x"', ',"policies":[]'),
    *('"time":"Z"}', ',"frames":""', '"session":0,', "null", '"a":1,', "\x7f", "é", '["a"],'),
)

Made = tuple[dict[str, Any], tuple[PersonalValue, ...]]


def batch_of(contexts: Sequence[Mapping[str, Any]], **more: Any) -> Made:
    """A record with a batch of requests with these facts, and what stands beside it."""
    numbers = [SessionNumbers("1" * 32), SessionNumbers("2" * 32, 40)]
    salts, made = Random(len(contexts)), OpenBatch({})
    for at, context in enumerate(contexts):
        asked = AccessRequest(
            request_kind="db_query",
            principal=EntityUid("User", "b" * 26),
            action="dbQuery",
            resource=EntityUid("Database", "d"),
            context=context,
        )
        asking = RequestRecord(
            numbers=numbers[at & 1],
            time=1_700_000_000.0 + at,
            request=asked,
            decision="allow" if at % 3 else "deny",
            decision_id=f"{at + 1:032x}",
            policies=("p", "q")[: at % 3],
            policy_version=4,
            entities_digest="e" * 64,
        )
        one = seal_request(evolve(asking, **more), salts.randbytes, FACTS)
        made.add([one], bytes)
    parts = made.parts(PLACE)
    spool = {"id": PLACE.spool_id, "n": PLACE.n, "prev": "0" * 64}
    record = {"event": "request.batch", "origin": PLACE.origin, "spool": spool, "batch": parts.form}
    return json.loads(json.dumps(record)), parts.beside


def signed_again(made: Made, path: str, text: str) -> Made:
    """The batch with another text beside it, as whoever holds the key could sign it."""
    record, beside = made
    changed = tuple(evolve(one, value=text) if one.path == path else one for one in beside)
    if path == ENTRIES:
        try:
            heads, ends, *_ = keyed._parts(keyed._ENTRY, text)
        except Malformed:
            return made
        parts = [f"{head}{end}".encode() for head, end in zip(heads, ends, strict=True)]
        root = entries_root(entry_leaves(PLACE, parts)).hex() if parts else "0" * 64
        form = {**record["batch"], "root": root, "count": len(parts)}
        record = {**record, "batch": form}
    return record, changed


def asked_of(entry: Mapping[str, Any], told: Mapping[str, str]) -> Any:
    """All of an entry that replay looks at; what was erased stands as its path alone."""
    kept = json.loads(json.dumps({name: entry[name] for name in entry if name not in NUMBERS}))
    for path in hidden_in_order(entry):
        *names, last = path.removeprefix("request.").split(".")
        there = kept
        for name in names:
            there = there[name]
        there[last] = json.loads(told[path]) if path in told else {"erased": path}
    kept["context"].pop("now", None)
    return kept


NUMBERS = {"decision_id", "frames", "range", "session", "session_n", "time"}


class EntryKeysTests(SynchronousTestCase):
    """`EntryKeys`."""

    def compare(self, found: KeyedBatch, whole: RequestBatch) -> None:
        """What was recognised is what was read."""
        places = range(len(whole.entries))
        self.assertEqual([found.entry(at) for at in places], list(whole.entries))
        self.assertEqual([one.encode() for one in found.texts], list(whole.texts))
        self.assertEqual(found.headers, whole.headers)
        asked = dict[str, Any]()
        for at, entry in enumerate(whole.entries):
            told = {one.path: one.value for one in whole.values(at)}
            self.assertEqual(found.told(at), told)
            self.assertEqual(
                (found.sessions[at], found.times[at]), (entry["session"], entry["time"])
            )
            now = entry["context"].get("now", "")
            self.assertEqual(found.nows[at], str(now))
            this = asked_of(entry, told)
            self.assertEqual(asked.setdefault(found.keys[at], this), this)
            text = found.whole(at, "8")
            if text is not None:
                said = json.loads(text)
                self.assertEqual(said["context"].pop("now", ""), 8 if now else "")
                self.assertEqual(said, this)

    @settings(max_examples=examples(60))
    @given(st.lists(CONTEXTS, min_size=1, max_size=6), st.sets(st.integers(0, 5)))
    def test_as_read(self, contexts: list[dict[str, Any]], erased: set[int]) -> None:
        """Entries, their values and what is asked are those of the batch, known or not."""
        record, beside = batch_of(contexts)
        for at in erased:
            for path in ("request.context.user", "request.context.reported.address"):
                left = without(beside, at, path)
                if left is not None:
                    beside = tuple(left if one.path == VALUES else one for one in beside)
        known, whole = EntryKeys(), read_batch(record, beside)
        for _ in range(2):
            found = known.read(record, beside)
            if found is not None:
                self.compare(found, whole)

    def test_known(self) -> None:
        """What was read once is not parsed again, whatever the numbers, times and salts."""
        facts = {"agent": "a", "command": "x", "reported": {"address": "b", "now": 5}, "user": "c"}
        contexts = [{**facts, "now": 1_900_000_000 + at} for at in range(4)]
        known = EntryKeys()
        first = known.read(*batch_of(contexts[:2], decision="allow", policies=("p",)))
        again = known.read(
            *batch_of(contexts, decision="allow", policies=("p",), frames=b"\0" * 32)
        )
        assert first is None and again is None  # its address is beside another "now"
        del facts["reported"]
        contexts = [{**facts, "now": 1_900_000_000 + at} for at in range(4)]
        first = known.read(*batch_of(contexts[:2], decision="allow", policies=("p",)))
        again = known.read(
            *batch_of(contexts, decision="allow", policies=("p",), frames=b"\0" * 32, range=(3, 9))
        )
        assert first is not None
        assert again is not None
        self.assertEqual((len(first.parsed), len(again.parsed)), (1, 0))
        self.assertEqual({*first.keys}, {*again.keys})
        self.assertEqual(len({*again.keys}), 1)

    def test_let_go(self) -> None:
        """Memory is bounded; what was let go is parsed again."""
        known, texts = EntryKeys(most=500), [f"{at:0100}" for at in range(20)]
        for _ in range(2):
            found = known.read(*batch_of([{"command": text} for text in texts]))
            assert found is not None
            self.assertGreater(len(found.parsed), 10)

    @settings(max_examples=examples(400))
    @given(
        st.lists(CONTEXTS, min_size=1, max_size=3),
        st.sampled_from([ENTRIES, VALUES]),
        st.integers(0, 2000),
        st.integers(0, 12),
        st.sampled_from(FRAGMENTS),
    )
    def test_altered(
        self, contexts: list[dict[str, Any]], path: str, at: int, less: int, more: str
    ) -> None:
        """Whatever somebody signs: only what would be read is recognised."""
        made, known = batch_of(contexts), EntryKeys()
        known.read(*made)
        [text] = [one.value for one in made[1] if one.path == path]
        at %= len(text)
        altered = signed_again(made, path, text[:at] + more + text[at + less :])
        found = known.read(*altered)
        if found is not None:
            self.compare(found, read_batch(*altered))
