"""Entries that are written like others are judged as those were, and as by themselves."""

from __future__ import annotations

import json
from typing import Any

from attrs import evolve
from hypothesis import example, given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.ingest.entries import JudgedEntry, KnownEntries
from svc.audit.ingest.facts import fact_forms
from svc.audit.ingest.requests import BatchChecks, CheckedBatch, GatedKind
from svc.audit.spool.entry.forms import seal_request
from svc.errors import Malformed
from svc.model.audit.batch import ENTRIES, read_batch
from svc.model.audit.decision_ids import least_id
from svc.model.audit.hidden import salted_text, value_hash
from svc.model.audit.request import SealedRequest, SessionNumbers
from svc.model.audit.spool import SpoolRow
from svc.model.policy.access import AccessRequest, EntityUid
from svc.model.policy.terms import AttributeTerm
from svc.model.session.session import Session
from tests.model.audit import test_batch
from tests.support.caches import cache_sizes
from tests.support.examples import examples

FACTS = {
    **test_batch.FACTS,
    "now": AttributeTerm(name="now", type="Long", classified="public", help="when"),
    "proxy_reported": AttributeTerm(
        name="proxy_reported",
        type=(
            AttributeTerm(name="agent", type="String", classified="personal", help="with what"),
            AttributeTerm(name="size", type="Long", classified="public", help="how much"),
        ),
        classified="public",
        help="as it says",
    ),
}
KIND = GatedKind("RedisServer", {"redisRead": "db_query", "redisWrite": "db_query"})
UID, OTHER = "1" * 32, "2" * 32
TEXTS = ("GET 1", 'a:5,"b', "caf\xe9", '"personal":"x"', ":7,:8}", '"session":1,"session_n":2', "")
PARTS = ('"', ":", ",", "1", "0", "9" * 15, "9" * 16, "true", "{", "}", "\\u0000", "e", "-", " ")


def session_row(uid: str) -> Session | None:
    """Both sessions were granted to the Proxy."""
    if uid not in (UID, OTHER):
        return None
    ids: dict[str, Any] = {"person_id": "b" * 26, "resource_id": "cache", "decision_id": "d" * 32}
    place: dict[str, Any] = {"connector_id": "c" * 26, "proxy_id": test_batch.PLACE.origin}
    kind = "redis" if uid == UID else "other"
    return Session(uid=uid, kind=kind, started_at=0.0, **ids, **place)


def checks(known: KnownEntries, *, picks: bool = True) -> BatchChecks:
    """What picks every allowed request, or none."""
    return BatchChecks(
        kinds={"redis": KIND, "other": GatedKind("RedisServer", {"redisRead": "db_query"})},
        facts=fact_forms(FACTS.values()),
        session_row=session_row,
        pick=lambda: picks,
        forms=known,
    )


def sealed(numbers: SessionNumbers, at: int, **more: Any) -> SealedRequest:
    """A request with facts that may stand in the way."""
    text, action = more.pop("text", "GET 1"), more.pop("action", "redisRead")
    context = {
        "client_address": "192.0.2.7",
        "command": text,
        "now": 1_700_000_000 + at,
        "proxy_reported": {"agent": text, "size": at},
    }
    made = test_batch.request(numbers, at, **more)
    asked = AccessRequest(
        request_kind="db_query",
        principal=EntityUid("User", "b" * 26),
        action=action,
        resource=EntityUid("RedisServer", "cache"),
        context=context,
    )
    return seal_request(evolve(made, request=asked), bytes, FACTS)


def judged(checking: BatchChecks, entries: list[SealedRequest]) -> CheckedBatch | str:
    """What a batch of *entries* is found to say, or what is wrong with it."""
    record, beside = test_batch.batch_of(entries)
    record["decision_id"] = least_id(min(one.decision_id for one in entries))
    try:
        found = checking.check(SpoolRow(b"", beside), record)
    except Malformed as refused:
        return refused.text
    read_batch(record, beside)  # whoever verifies the log reads what was let in
    return found


def read(known: KnownEntries, entry: str) -> tuple[JudgedEntry, int] | None:
    """An entry in a list, and where it ends; None where it is of no known form."""
    found, written, end = known.read(f"[{entry}]", 1, 1, [KIND])
    assert written == [entry][: len(found)]
    return (found[0], end) if found else None


def with_now(request: SealedRequest, at: int, text: str) -> SealedRequest:
    """The request with another value than a number, as no honest Proxy writes it."""
    number = f'"now":{1_700_000_000 + at}'
    return evolve(request, before=request.before.replace(number, f'"now":{text}'))


def with_address(request: SealedRequest, text: str) -> SealedRequest:
    """The request with another hidden value, as no honest Proxy writes it."""
    values, before = list[str](), request.before
    for one in request.values:
        path, digits, told = json.loads(f"[{one}]")
        salt = bytes.fromhex(digits)
        if path.endswith("client_address"):
            before = before.replace(value_hash(path, salt, told), value_hash(path, salt, text), 1)
            told = text
        values.append(salted_text(path, salt, told))
    return evolve(request, before=before, values=values)


JSON_TEXTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=5,
).flatmap(
    lambda value: st.builds(
        json.dumps,
        st.just(value),
        ensure_ascii=st.booleans(),
        sort_keys=st.booleans(),
        separators=st.sampled_from([None, (",", ":")]),
    )
)
"""JSON, in its one form and in others."""


def records_of(number: str, count: int = 30, beside: str = "x" * 34) -> str:
    """A list of records of a number."""
    return "[" + ",".join([f'{{"a":{number},"b":"{beside}"}}'] * count) + "]"


class EntriesTests(SynchronousTestCase):
    """Batches of two sessions."""

    @settings(max_examples=examples(300), deadline=None)
    @given(st.data())
    def test_as_by_itself(self, data: st.DataObject) -> None:
        """A changed entry is judged alike whether or not others like it were judged before."""
        known, pick = KnownEntries(), data.draw
        text = pick(st.sampled_from(TEXTS))
        more: dict[str, Any] = {"text": text}
        if pick(st.booleans()):
            more |= {"range": (3, 12), "frames": bytes(32)}
        one, two = SessionNumbers(UID), SessionNumbers(OTHER)
        for at in range(0, 6, 2):
            good = [sealed(one, at, **more), sealed(two, at + 1, **more)]
            self.assertNotIsInstance(judged(checks(known), good), str)
        entries = [sealed(pick(st.sampled_from([one, two])), at, **more) for at in range(10, 13)]
        which, at = pick(st.integers(0, 2)), pick(st.integers(0, 400))
        part, dropped = pick(st.sampled_from(("", *PARTS))), pick(st.integers(0, 3))
        changed = entries[which]
        whole = changed.before + "\0" + changed.after
        at %= len(whole)
        if "\0" not in whole[at : at + dropped]:
            before, _, after = (whole[:at] + part + whole[at + dropped :]).partition("\0")
            entries[which] = evolve(changed, before=before, after=after)
        self.assertEqual(
            judged(checks(known), entries), judged(checks(KnownEntries()), entries), entries[which]
        )

    @settings(max_examples=examples(300), deadline=None)
    @given(JSON_TEXTS | st.text(max_size=4))
    @example(' "192.0.2.7"')
    @example(r'"\u0031"')
    @example(r'"\ud800"')
    @example("null")
    @example('["a",1]')
    @example('{"b":1,"a":2}')
    @example('{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":1}}}}}}}}')
    def test_as_if_decided_again(self, text: str) -> None:
        """A hidden value is judged alike whether or not the request is decided again."""
        entries = [with_address(sealed(SessionNumbers(UID), 0), text)]
        picked, passed = (
            judged(checks(KnownEntries(), picks=one), entries) for one in (True, False)
        )
        self.assertEqual(isinstance(picked, str), isinstance(passed, str), (picked, passed))

    def test_nothing_personal_is_remembered(self) -> None:
        """What a batch hides is in no cache afterwards: it may be erased from the log."""
        known, sizes = KnownEntries(), list[dict[str, int]]()
        for at in range(3):
            entry = with_address(sealed(SessionNumbers(UID), at), f'"192.0.2.{at}"')
            self.assertNotIsInstance(judged(checks(known, picks=False), [entry]), str)
            sizes.append(cache_sizes())
        grown = [name for name, size in sizes[2].items() if size > sizes[1].get(name, size)]
        # Of the ids and the second of the entry.
        public = {"svc.audit.log.forms.is_second"}
        self.assertEqual(set(grown) - public, set())

    def test_another_kind(self) -> None:
        """What one kind allows to be said is not said of another."""
        known, one, two = KnownEntries(), SessionNumbers(UID), SessionNumbers(OTHER)
        for at in range(4):
            good = judged(checks(known), [sealed(one, at, action="redisWrite")])
            self.assertNotIsInstance(good, str)
        self.assertIn(
            "no action of its session's kind",
            str(judged(checks(known), [sealed(two, 9, action="redisWrite")])),
        )

    def test_found_again(self) -> None:
        """The third of its sort is found by its form, and says what it says."""
        known, one = KnownEntries(), SessionNumbers(UID)
        ranged: dict[str, Any] = {"range": (3, 12), "frames": b"t" * 32}
        text = ""
        for at in range(3):
            [found] = [sealed(one, at, decision="deny", **ranged)]
            text = found.text(0, at + 1)
            judged(checks(known), [found])
        found_again = read(known, text)
        assert found_again is not None
        entry, end = found_again
        self.assertEqual((end, entry.session_n, entry.is_allowed), (len(text) + 1, 3, False))
        self.assertEqual((entry.first, entry.end, entry.frames), (3, 12, (b"t" * 32).hex()))
        paths = ("request.context.client_address", "request.context.proxy_reported.agent")
        self.assertEqual(entry.paths, paths)

    def test_numbers_do_not_grow_without_end(self) -> None:
        """An entry whose numbers make it long is judged by itself."""
        known, one = KnownEntries(), SessionNumbers(UID)
        for at in range(3):
            judged(checks(known), [with_now(sealed(one, at, decision="deny"), at, records_of("1"))])
        alike = with_now(sealed(one, 3, decision="deny"), 3, records_of("12"))
        self.assertIsNotNone(read(known, alike.text(0, 4)))
        long = with_now(sealed(one, 9, decision="deny"), 9, records_of("9" * 15))
        self.assertIsNone(read(known, long.text(0, 4)))

    def test_many_numbers(self) -> None:
        """An entry with many numbers is not remembered: each makes its pattern dearer."""
        known, one = KnownEntries(), SessionNumbers(UID)
        for at in range(3):
            judged(
                checks(known),
                [with_now(sealed(one, at, decision="deny"), at, records_of("1", 100, ""))],
            )
        alike = with_now(sealed(one, 3, decision="deny"), 3, records_of("1", 100, ""))
        self.assertIsNone(read(known, alike.text(0, 4)))

    def test_forms_are_made_at_a_price(self) -> None:
        """Whoever writes few entries in each of many forms has forms made for few of them."""
        known, one, made = KnownEntries(), SessionNumbers(UID), list[bool]()
        for at in range(100):
            for again in range(3):
                entry = sealed(one, 3 * at + again, text=f"x{at}", decision="deny")
                if again == 2:
                    made.append(read(known, entry.text(0, again + 1)) is not None)
                self.assertNotIsInstance(judged(checks(known), [entry]), str)
        self.assertEqual(made[:20], [True] * 20)
        self.assertLess(sum(made[50:]), 10)

    def test_names_are_not_numbers(self) -> None:
        """A number within a name is part of it: of two names, neither order nor difference goes."""
        for names in (("a:5,b", "a:6,b"), (":5,", ":6,"), ('"a":5,', '"a":6,')):
            known, one = KnownEntries(), SessionNumbers(UID)
            first, second = (json.dumps(name) for name in names)
            for at in range(3):
                judged(
                    checks(known),
                    [with_now(sealed(one, at, decision="deny"), at, f"[{{{first}:1,{second}:2}}]")],
                )
            for pair in ((first, first), (second, first)):
                found = [
                    with_now(sealed(one, 9, decision="deny"), 9, f"[{{{pair[0]}:1,{pair[1]}:2}}]")
                ]
                self.assertIn("not in its one form", str(judged(checks(known), found)))

    def test_the_list_in_its_one_form(self) -> None:
        """Nothing stands between the entries of a batch but commas, and nothing around them."""
        good = sealed(SessionNumbers(UID), 0)
        record, beside = test_batch.batch_of([good])
        record["decision_id"] = least_id(good.decision_id)
        text = next(one.value for one in beside if one.path == ENTRIES)
        for changed in (f"{text[:-1]},]", f"{text[:-1]}", f"{text}]", f"[,{text[1:]}", f"{text},"):
            values = tuple(
                evolve(one, value=changed) if one.path == ENTRIES else one for one in beside
            )
            with self.assertRaises(Malformed, msg=changed):
                checks(KnownEntries()).check(SpoolRow(b"", values), record)

    def test_many_levels(self) -> None:
        """Whether an entry can be read does not depend on how much of a parser's stack is left."""
        one = SessionNumbers(UID)
        for levels, refused in ((20, False), (40, True), (200, True)):
            deep = with_now(sealed(one, 0, decision="deny"), 0, "[" * levels + "]" * levels)
            found = judged(checks(KnownEntries()), [deep])
            self.assertEqual("too many levels" in str(found), refused, levels)

    def test_facts_that_are_null(self) -> None:
        """A denied request may be without facts, but has not null for them."""
        found = sealed(SessionNumbers(UID), 0, decision="deny")
        begin, end = found.before.index('"context":'), found.before.index(',"decision"')
        found = evolve(found, before=f'{found.before[:begin]}"context":null{found.before[end:]}')
        self.assertIn("its facts are malformed", str(judged(checks(KnownEntries()), [found])))
