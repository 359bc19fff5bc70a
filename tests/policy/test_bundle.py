"""What a snapshot carries: the same content, the same bytes."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Malformed
from svc.model.policy.access import Entity, EntityUid
from svc.policy.bundle import (
    PolicyBundle,
    apply,
    decode_bundle,
    decode_delta,
    diff,
    encode_bundle,
    encode_delta,
    engine_of,
)
from svc.policy.entities import ResourceFacts, entity_of
from svc.policy.refusals import EntitiesRefused
from tests.policy.samples import WORDS, ask, everybody
from tests.support.examples import examples

TEXT = '@id("ops") permit (principal in Group::"g1", action, resource);'
BUNDLE = PolicyBundle(
    policy_version=3, entity_revision=9, terms=WORDS.terms, policy_text=TEXT, entities=everybody()
)

_people = st.dictionaries(
    st.text("abc", min_size=1, max_size=2),
    st.tuples(st.text(max_size=3), st.sets(st.sampled_from("gh"))),
    max_size=6,
)


def people(known: "dict[str, tuple[str, set[str]]]") -> "list[Entity]":
    """Persons with a name and groups."""
    return [
        Entity(EntityUid("User", id), {"name": name}, tuple(EntityUid("Group", g) for g in groups))
        for id, (name, groups) in known.items()
    ]


class BundleTests(SynchronousTestCase):
    """Bytes there and back."""

    def test_round_trip(self) -> None:
        """A bundle comes back as it was, and decides as it did."""
        again = decode_bundle(encode_bundle(BUNDLE))
        self.assertEqual(again, BUNDLE)
        engine = engine_of(again)
        self.assertEqual((engine.version, engine.revision), (3, 9))
        self.assertTrue(engine.decide(ask("u1")).allowed)
        self.assertFalse(engine.decide(ask("u2")).allowed)

    def test_order_does_not_matter(self) -> None:
        """The same content in another order has the same bytes."""
        other = PolicyBundle(
            policy_version=3,
            entity_revision=9,
            terms=WORDS.terms,
            policy_text=TEXT,
            entities=tuple(reversed(everybody())),
        )
        self.assertEqual(encode_bundle(other), encode_bundle(BUNDLE))

    def test_malformed(self) -> None:
        """Bytes that are no bundle, or name another schema, are refused."""
        form = json.loads(encode_bundle(BUNDLE))
        wrong = [b"", b"[]", b"{}", b"[" * 100_000, b"\xff"]
        changes: tuple[tuple[str, Any], ...] = (
            ("format", 2),
            ("policy_version", -1),
            ("policy_version", True),
            ("schema_digest", "0" * 64),
            ("policy_text", None),
            ("entities", {}),
            ("entities", [{"uid": {}}]),
            ("terms", {}),
            ("more", 1),
        )
        wrong += [json.dumps({**form, name: value}).encode() for name, value in changes]
        for data in wrong:
            self.assertRaises(Malformed, decode_bundle, data)

    @settings(deadline=None, max_examples=examples(60))
    @given(_people, _people)
    def test_delta(
        self, old: "dict[str, tuple[str, set[str]]]", new: "dict[str, tuple[str, set[str]]]"
    ) -> None:
        """Old entities and the delta give the new ones, byte for byte."""
        before = PolicyBundle(
            policy_version=1,
            entity_revision=1,
            terms=WORDS.terms,
            policy_text=TEXT,
            entities=people(old),
        )
        after = PolicyBundle(
            policy_version=1,
            entity_revision=2,
            terms=WORDS.terms,
            policy_text=TEXT,
            entities=people(new),
        )
        delta = decode_delta(encode_delta(diff(before.entities, after.entities, 1, 2)))
        self.assertEqual(encode_bundle(apply(before, delta)), encode_bundle(after))

    def test_delta_of_another_revision(self) -> None:
        """A delta that begins elsewhere, or removes what is not there, is refused."""
        self.assertRaises(Malformed, apply, BUNDLE, diff((), (), 8, 10))
        gone = diff([Entity(EntityUid("User", "nobody"))], (), 9, 10)
        self.assertRaises(Malformed, apply, BUNDLE, gone)


class LabelTests(SynchronousTestCase):
    """Labels and what others said."""

    def test_discovered(self) -> None:
        """What a Connector says of a resource stands apart from the catalog's labels."""
        facts = ResourceFacts(
            id="db1",
            entity_type="Database",
            kind="postgres",
            labels={"env": "prod"},
            discovered={"env": "test"},
        )
        self.assertEqual(dict(entity_of(facts).tags), {"env": "prod", "discovered.env": "test"})
        claims = ResourceFacts(
            id="db1", entity_type="Database", kind="postgres", labels={"discovered.env": "prod"}
        )
        self.assertRaises(EntitiesRefused, entity_of, claims)
