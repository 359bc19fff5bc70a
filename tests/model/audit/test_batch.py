"""Batches of requests: what was signed is what is read, and nothing else is."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.log.record import Unrecordable
from svc.audit.spool.batches import OpenBatch
from svc.audit.spool.entry.facts import FactTexts
from svc.audit.spool.entry.forms import form_of, seal_request
from svc.errors import Malformed
from svc.model.audit import batch as batches
from svc.model.audit.batch import (
    BESIDE,
    VALUES,
    BatchClaims,
    read_batch,
    without,
)
from svc.model.audit.decision_ids import DecisionIds, greatest_id, least_id, origin_digits
from svc.model.audit.entry_tree import RequestPlace, entries_root, entry_path, node
from svc.model.audit.hidden import hash_of_value, hidden_paths, value_hash
from svc.model.audit.ledger import PersonalValue
from svc.model.audit.plain_json import write_plain
from svc.model.audit.request import RepeatedRequest, RequestRecord, SealedRequest, SessionNumbers
from svc.model.policy.access import MAX_LEVELS, AccessRequest, EntityUid
from svc.model.policy.terms import AttributeTerm
from tests.support.examples import examples
from tests.support.proof import proves

GOLDEN = Path(__file__).parent / "golden" / "batch.json"
PLACE = RequestPlace("p" * 26, "5" * 32, 7)
FACTS = {
    "client_address": AttributeTerm(
        name="client_address", type="ipaddr", classified="personal", help="where from"
    ),
    "command": AttributeTerm(name="command", type="String", classified="public", help="what"),
}


def request(numbers: SessionNumbers, at: int = 0, **more: Any) -> RequestRecord:
    """A decided request."""
    asked = AccessRequest(
        request_kind="db_query",
        principal=EntityUid("User", "b" * 26),
        action="redisRead",
        resource=EntityUid("RedisServer", "cache"),
        context={"client_address": "192.0.2.7", "command": f"GET {at}"},
    )
    id = f"{origin_digits(PLACE.origin)}{1_700_000_000_000 + at:012x}{at:010x}"
    made = RequestRecord(
        numbers=numbers,
        time=1_700_000_000.0 + at,
        request=asked,
        decision="allow",
        decision_id=id,
        policies=("readers",),
        policy_version=4,
        entities_digest="e" * 64,
    )
    return evolve(made, **more)


def sealed(made: RequestRecord) -> SealedRequest:
    """Sealed with salts of zeros."""
    return seal_request(made, bytes, FACTS)


def batch_of(entries: Sequence[SealedRequest]) -> tuple[dict[str, Any], tuple[PersonalValue, ...]]:
    """A record with a batch at PLACE, and what stands beside it."""
    open_batch = OpenBatch({})
    open_batch.add(entries, bytes)
    parts = open_batch.parts(PLACE)
    spool = {"id": PLACE.spool_id, "n": PLACE.n, "prev": "0" * 64}
    record = {"event": "request.batch", "origin": PLACE.origin, "spool": spool, "batch": parts.form}
    return json.loads(json.dumps(record)), parts.beside


def two_sessions(count: int = 5) -> tuple[dict[str, Any], tuple[PersonalValue, ...]]:
    """Entries of two sessions by turns."""
    numbers = [SessionNumbers("1" * 32), SessionNumbers("2" * 32, 40)]
    return batch_of([sealed(request(numbers[at & 1], at)) for at in range(count)])


def root_by_path(index: int, count: int, leaf: bytes, path: Sequence[bytes]) -> bytes:
    """The root that *path* leads to from leaf *index* of *count*.

    Raises:
        Malformed: the path has not the length that it has in such a tree.
    """
    if not 0 <= index < count <= 256:
        raise Malformed("request proof: the batch has no such entry")
    hashes = iter(path)
    try:
        while count > 1:
            if index ^ 1 < count:
                other = next(hashes)
                leaf = node(other, leaf) if index & 1 else node(leaf, other)
            index, count = index >> 1, (count + 1) >> 1
    except StopIteration:
        raise Malformed("request proof: it has too few hashes") from None
    if next(hashes, None) is not None:
        raise Malformed("request proof: it has too many hashes")
    return leaf


class BatchTests(SynchronousTestCase):
    """One batch, written and read."""

    def test_read(self) -> None:
        """Entries come back in order, with the headers of their sessions and what they hide."""
        record, beside = two_sessions()
        batch = read_batch(record, beside)
        self.assertEqual([one["session_n"] for one in batch.entries], [1, 41, 2, 42, 3])
        self.assertEqual([one.session_uid[0] for one in batch.headers], ["1", "2"])
        self.assertEqual(batch.header(1).session_uid, "2" * 32)
        self.assertEqual([one.value for one in batch.values(4)], ['"192.0.2.7"'])
        self.assertEqual(hidden_paths(batch.entries[0]), ["request.context.client_address"])

    def test_policy_changes_within(self) -> None:
        """Another policy version begins another header of the same session, without a gap."""
        numbers = SessionNumbers("1" * 32)
        versions = (4, 4, 5, 4)
        made = [request(numbers, at, policy_version=one) for at, one in enumerate(versions)]
        record, beside = batch_of([sealed(one) for one in made])
        self.assertEqual([one[1:] for one in record["batch"]["sessions"]], [[1, 2], [3, 3], [4, 4]])
        headers = read_batch(record, beside).headers
        self.assertEqual([one.policy_version for one in headers], [4, 5, 4])

    def test_golden(self) -> None:
        """The bytes of ADR 36."""
        record, beside = two_sessions()
        batch = read_batch(record, beside)
        leaves = batch.leaves()
        made = {
            "batch": record["batch"],
            "beside": {one.path: one.value for one in beside},
            "leaves": [one.hex() for one in leaves],
            "path of 2": [one.hex() for one in entry_path(leaves, 2)],
        }
        self.assertEqual(made, json.loads(GOLDEN.read_text()))

    @given(st.data())
    def test_decided_before(self, data: st.DataObject) -> None:
        """What was decided as another one before has the text that it would have by itself."""
        numbers = SessionNumbers("1" * 32)
        decided: list[dict[str, Any]] = [
            {
                "request": request(numbers, at).request,
                "decision": data.draw(st.sampled_from(["allow", "deny"])),
                "policies": data.draw(st.sampled_from([(), ("readers",), ("a", 'b"\\')])),
                "reason": data.draw(st.sampled_from(["", "denied"])),
            }
            for at in range(2)
        ]
        first = [request(numbers, at, **one) for at, one in enumerate(decided)]
        for at in range(2, 6):
            which = data.draw(st.integers(0, 1))
            own: dict[str, Any] = {
                "range": data.draw(st.sampled_from([None, (0, 9), (9, 1 << 40)])),
                "frames": data.draw(st.sampled_from([None, bytes(32)])),
            }
            made = request(numbers, at, **decided[which], **own)
            again = RepeatedRequest(first[which], made.decision_id, made.time, **own)
            got = seal_request(again, bytes, FACTS)
            self.assertEqual(got, sealed(made))
            text = got.text(3, at)
            self.assertEqual(write_plain(json.loads(text)), text)
            self.assertGreaterEqual(got.size - got.beside, len(text.encode()) + 1)

    def test_another_salt(self) -> None:
        """What a record hides is salted anew in each, so nobody sees that two hide the same."""
        made = request(SessionNumbers("1" * 32))
        again = RepeatedRequest(made, made.decision_id, made.time)
        first, second = (seal_request(again, os.urandom, FACTS) for _ in range(2))
        self.assertNotEqual(first.before, second.before)
        self.assertNotEqual(first.values, second.values)
        for one in (first, second):
            path, salt, value = json.loads(f"[{one.values[0]}]")
            hashed = value_hash(path, bytes.fromhex(salt), value)
            self.assertIn(f'{{"personal":"{hashed}"}}', one.before)

    def test_forms_go_with_their_decisions(self) -> None:
        """The form of a decision is kept with it alone, for whatever is decided by it."""
        made = request(SessionNumbers("1" * 32))
        form = form_of(made, FactTexts(FACTS))
        self.assertIs(made.form, form)
        again = RepeatedRequest(made, made.decision_id, made.time)
        self.assertIs(form_of(again, FactTexts(FACTS)), form)
        self.assertIsNone(evolve(made, decision="deny").form)

    def test_what_is_of_one_alone(self) -> None:
        """An id that is no decision's, or a time of no calendar, is refused."""
        made = request(SessionNumbers("1" * 32))
        for id, at in (("x" * 32, 1.0), (made.decision_id, -1.0), (made.decision_id, 1e12)):
            for one in (
                evolve(made, decision_id=id, time=at),
                RepeatedRequest(made, id, at),
            ):
                self.assertRaises(Unrecordable, form_of, one, FactTexts(FACTS))

    def test_levels_of_a_value(self) -> None:
        """A personal value has no more levels than a fact may have, wherever it is read."""
        for path, most in (("request.context.x", MAX_LEVELS), ("request.context.x.y", 3)):
            for levels in (most - 1, most, 900):
                text = '{"a":' * levels + "1" + "}" * levels
                if levels < most:
                    hash_of_value(path, bytes(16), text, {})
                    continue
                with self.assertRaises(Malformed, msg=text):
                    hash_of_value(path, bytes(16), text, {})

    @proves("G-OPEN-10")
    def test_bounds(self) -> None:
        """Too many entries, too long a text or entry, and bad numbers are refused by name."""
        record, beside = two_sessions()
        long = PersonalValue(batches.ENTRIES, batches.NO_SALT, " " * (batches.MAX_TEXT_BYTES + 1))
        with self.assertRaisesRegex(Malformed, "is longer"):
            read_batch(record, [long, *beside[1:]])
        bad: list[dict[str, Any]] = [
            {"count": 257},
            {"count": 0},
            {"count": True},
            {"sessions": []},
            {"more": 1},
        ]
        for change in bad:
            with self.assertRaises(Malformed):
                read_batch({**record, "batch": {**record["batch"], **change}}, beside)
        with self.assertRaisesRegex(Malformed, "missing"):
            read_batch(record, beside[1:])

    def test_sessions(self) -> None:
        """A session in the signed row that is not in its form is refused, whatever is beside it."""
        digest = "0a" * 32
        wrong: tuple[tuple[str, tuple[Any, ...]], ...] = (
            ("a session is malformed", (None, {}, [], [digest, 1], [digest, 1, 1, 1])),
            (
                "the numbers of a session are malformed",
                ([digest, 0, 1], [digest, 2, 1], [digest, True, 1], [digest, 1, 2**53]),
            ),
            (
                "a digest or a salt is malformed",
                ([digest.upper(), 1, 1], [digest[2:], 1, 1], [" " + digest, 1, 1], [7, 1, 1]),
            ),
        )
        for why, odd in wrong:
            for one in odd:
                record, _ = two_sessions()
                record["batch"]["sessions"][1] = one
                refused = self.assertRaises(Malformed, BatchClaims.of, record)
                self.assertIn(why, refused.text, one)

    def test_value_erased(self) -> None:
        """One value of one entry is taken away; the batch is read without it."""
        record, beside = two_sessions()
        changed = without(beside, 3, "request.context.client_address")
        assert changed is not None
        batch = read_batch(record, [changed if one.path == VALUES else one for one in beside])
        self.assertEqual([len(batch.values(at)) for at in range(5)], [1, 1, 1, 0, 1])
        self.assertIs(without([changed], 3, "request.context.client_address"), None)

    @given(st.data())
    @settings(max_examples=examples(300), deadline=None)
    def test_every_bit(self, data: st.DataObject) -> None:
        """A batch is refused if a bit of its member in the row, or of a text beside it, differs."""
        record, beside = two_sessions()
        at = data.draw(st.integers(0, 3))
        before = record["batch"]
        text = json.dumps(before, sort_keys=True) if at == 3 else beside[at].value
        bits = bytearray(text.encode())
        bit = data.draw(st.integers(0, 8 * len(bits) - 1))
        bits[bit >> 3] ^= 1 << (bit & 7)
        try:
            changed = bits.decode()
            if at == 3:
                record = {**record, "batch": json.loads(changed)}
            else:
                beside = tuple(
                    evolve(one, value=changed) if one is beside[at] else one for one in beside
                )
        except ValueError:
            return  # no text any more, which the message or the record's own form refuses
        if at == 3 and record["batch"] | {"last_id": ""} == before | {"last_id": ""}:
            return  # signed with the row, and compared with the entries at Authority
        with self.assertRaises(Malformed):
            read_batch(record, beside)

    @given(st.integers(0, 4), st.sampled_from(["origin", "spool", "n"]))
    def test_elsewhere(self, count: int, what: str) -> None:
        """The same entries at another place are another batch."""
        record, beside = two_sessions(count + 1)
        if what == "origin":
            record["origin"] = "q" * 26
        else:
            record["spool"]["id" if what == "spool" else "n"] = "6" * 32 if what == "spool" else 8
        with self.assertRaisesRegex(Malformed, "not the one that was signed"):
            read_batch(record, beside)


class ProofTests(SynchronousTestCase):
    """Paths of the inner tree."""

    @given(st.integers(1, 256), st.data())
    @settings(max_examples=examples(100), deadline=None)
    def test_paths(self, count: int, data: st.DataObject) -> None:
        """Each leaf's path leads to the root, and no changed one does."""
        leaves = [bytes([at]) * 32 for at in range(count)]
        index = data.draw(st.integers(0, count - 1))
        path, root = entry_path(leaves, index), entries_root(leaves)
        self.assertEqual(root_by_path(index, count, leaves[index], path), root)
        with self.assertRaises(Malformed):
            root_by_path(index, count, leaves[index], [*path, bytes(32)])
        if not path:
            return
        with self.assertRaises(Malformed):
            root_by_path(index, count, leaves[index], path[:-1])
        at, bit = data.draw(st.integers(0, len(path) - 1)), data.draw(st.integers(0, 255))
        changed = (int.from_bytes(path[at], "big") ^ (1 << bit)).to_bytes(32, "big")
        wrong = [*path[:at], changed, *path[at + 1 :]]
        self.assertNotEqual(root_by_path(index, count, leaves[index], wrong), root)

    def test_texts(self) -> None:
        """Three texts are beside a batch, in order of their paths."""
        self.assertEqual([one.path for one in two_sessions()[1]], list(BESIDE))
        self.assertEqual(list(BESIDE), sorted(BESIDE))


class DecisionIdTests(SynchronousTestCase):
    """Ids that are found by time."""

    def test_order(self) -> None:
        """Ids ascend by the millisecond, also where the clock goes back."""
        times = iter([5.0, 5.001, 4.0, 6.0])
        ids = DecisionIds("p" * 26, lambda: next(times), lambda n: b"\xab" * n)
        made = [ids.next() for _ in range(4)]
        self.assertEqual([int(one[10:22], 16) for one in made], [5000, 5001, 5001, 6000])
        self.assertEqual({one[:10] for one in made}, {origin_digits("p" * 26)})
        self.assertEqual(least_id(made[0]), made[0][:22] + "0" * 10)
        self.assertTrue(least_id(made[0]) <= made[0] <= greatest_id(made[0]))


if __name__ == "__main__":
    _record, _beside = two_sessions()
    _leaves = read_batch(_record, _beside).leaves()
    GOLDEN.parent.mkdir(exist_ok=True)
    GOLDEN.write_text(
        json.dumps(
            {
                "batch": _record["batch"],
                "beside": {one.path: one.value for one in _beside},
                "leaves": [one.hex() for one in _leaves],
                "path of 2": [one.hex() for one in entry_path(_leaves, 2)],
            },
            indent=1,
            sort_keys=True,
        )
        + "\n"
    )
