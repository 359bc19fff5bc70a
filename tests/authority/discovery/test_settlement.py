"""What becomes of an id: the pure function, over everything that can be offered."""

from __future__ import annotations

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.authority.discovery.offers import Offer, SourceKey
from svc.authority.discovery.settlement import SettlementRules, settle
from svc.errors import Malformed
from svc.model.cluster.labels import DISCOVERED
from svc.model.cluster.node import Leaf, Node, NodeState
from svc.model.cluster.onward import OnwardAuth
from svc.model.cluster.resource import Resource, ResourceSource, found_by, found_identity
from svc.model.cluster.scope import (
    DECLARED,
    FOUND_BY_PEER,
    ID_RESERVED,
    KIND_DISABLED,
    MODE_REQUIRED,
    NO_SCOPE,
    ONWARD_AUTH_REFUSED,
    OWNED_BY_PEER,
    DiscoveryScope,
    PublishedResource,
    check_scope,
)
from tests.support.examples import examples
from tests.support.proof import proves

MODES = st.sampled_from([None, *OnwardAuth])
LABELS = st.dictionaries(st.sampled_from(["tier", "zone"]), st.sampled_from(["x", "y"]))


def node(name: str, **more: object) -> Node:
    """A Connector."""
    made = {
        "id": name,
        "name": f"name-{name}",
        "role": "connector",
        "key_sha256": b"k",
        "audit_key": b"a",
        "leaf": Leaf("1", b"k", 9e9),
        "enrolled_at": 1.0,
    }
    return Node(**{**made, **more})  # type: ignore[arg-type]


NODES = {
    "n1": node("n1"),
    "n2": node("n2"),
    "gone": node("gone", state=NodeState.REVOKED),
    "edge": node("edge", role="proxy"),
}
SCOPES = st.builds(
    DiscoveryScope,
    name=st.sampled_from(["a", "b", "c"]),
    kinds=st.lists(st.sampled_from(["ssh", "tcp", "web"]), min_size=1, unique=True).map(tuple),
    onward_auth=st.lists(st.sampled_from(list(OnwardAuth)), unique=True).map(tuple),
    connectors=st.sampled_from([(), ("n1",), ("name-n2",), ("n1", "name-n2"), ("n2", "gone")]),
    id_prefix=st.sampled_from(["", "r", "q"]),
    match_labels=LABELS,
    labels=LABELS,
)
OFFERS = st.lists(
    st.builds(
        Offer,
        key=st.builds(SourceKey, st.sampled_from([*NODES, "nobody"]), st.sampled_from("st")),
        resource=st.builds(
            PublishedResource,
            id=st.just("r1"),
            kind=st.sampled_from(["ssh", "tcp", "web"]),
            labels=LABELS,
            onward_auth=MODES,
        ),
        since=st.floats(0, 9),
    ),
    unique_by=lambda one: one.key,
)
KNOWN = st.one_of(
    st.none(),
    st.just(Resource("r1", "tcp", assigned_to="n1")),
    st.builds(
        Resource,
        id=st.just("r1"),
        kind=st.sampled_from(["ssh", "tcp"]),
        labels=st.just({}),
        assigned_to=st.sampled_from(["n1", "n2", None]),
        source=st.just(ResourceSource.DISCOVERED),
        onward_auth=MODES,
        identity=st.sampled_from([found_identity("n1", "x"), found_identity("n2", "x")]),
    ),
)


class SettlementTests(SynchronousTestCase):
    """Properties that hold whatever Connectors say."""

    @settings(max_examples=examples(1000), deadline=None)
    @given(
        OFFERS,
        KNOWN,
        st.lists(SCOPES, unique_by=lambda one: one.name),
        st.booleans(),
        st.sampled_from([None, "n1", "n2", "gone", "unknown"]),
    )
    def test_properties(
        self,
        offers: list[Offer],
        known: Resource | None,
        scopes: list[DiscoveryScope],
        reserved: bool,
        finder: str | None,
    ) -> None:
        """An operator's word stands above a Connector's, and each who offers is told."""
        rules = SettlementRules(scopes=scopes, nodes=NODES, kinds={"ssh", "tcp"})
        settled = settle(offers, known, rules, reserved=reserved, finder=finder)
        self.assertEqual(settled.verdicts.keys(), {one.key for one in offers})
        wanted = settled.wanted
        is_declared = known is not None and not known.is_discovered
        if wanted is None:
            self.assertTrue(all(one.refused for one in settled.verdicts.values()))
            return
        self.assertFalse(is_declared or (known is None and reserved))
        scope = next(one for one in scopes if one.name == wanted.scope)
        mine = [one for one in offers if one.node_id == wanted.node_id]
        self.assertTrue(any(scope.admits(one.resource, NODES[wanted.node_id]) for one in mine))
        self.assertIs(NODES[wanted.node_id].state, NodeState.ACTIVE)
        self.assertIn(wanted.kind, scope.kinds)
        given_labels = {k: v for k, v in wanted.labels.items() if not k.startswith(DISCOVERED)}
        self.assertEqual(given_labels, dict(scope.labels))
        if wanted.onward_auth is not None:
            self.assertEqual(wanted.kind, "ssh")
            self.assertIn(wanted.onward_auth, scope.onward_auth)
        served = [key for key, one in settled.verdicts.items() if not one.refused]
        self.assertLessEqual(len(served), 1)
        self.assertTrue(all(key.node_id == wanted.node_id for key in served))
        admitted = {
            one.node_id
            for one in offers
            if settled.verdicts[one.key].refused in ("", OWNED_BY_PEER, MODE_REQUIRED)
        }
        if known is not None and known.assigned_to in admitted:
            self.assertEqual(wanted.node_id, known.assigned_to)
        before = finder if known is None else found_by(known.identity)
        if before not in (None, wanted.node_id):
            other = NODES.get(before or "")
            self.assertTrue(scope.names(NODES[wanted.node_id]))
            self.assertTrue(other is not None and scope.names(other))
        again = settle(reversed(offers), known, rules, reserved=reserved, finder=finder)
        if len({(one.since, one.node_id) for one in offers}) == len(offers) < 2:
            self.assertEqual(again.wanted, wanted)

    def test_each_refusal(self) -> None:
        """Each reason, with what leads to it."""
        lab = DiscoveryScope(
            name="lab",
            kinds=("ssh", "tcp"),
            onward_auth=(OnwardAuth.CERTIFICATE, OnwardAuth.STORED_KEY),
        )
        found = Resource(
            "r1", "ssh", source=ResourceSource.DISCOVERED, identity=found_identity("n1", "x")
        )

        def verdict(kind: str, known: Resource | None = None, **more: object) -> str:
            reserved = bool(more.pop("reserved", False))
            row = PublishedResource("r1", kind, **more)  # type: ignore[arg-type]
            offers = [Offer(SourceKey("n1", "s"), row, 1.0)]
            rules = SettlementRules(scopes=[lab], nodes=NODES, kinds={"ssh", "tcp"})
            settled = settle(offers, known, rules, reserved=reserved)
            return settled.verdicts[offers[0].key].refused

        self.assertEqual(verdict("tcp"), "")
        self.assertEqual(verdict("tcp", Resource("r1", "tcp")), DECLARED)
        self.assertEqual(verdict("tcp", reserved=True), ID_RESERVED)
        self.assertEqual(verdict("web"), KIND_DISABLED)
        self.assertEqual(verdict("ssh"), MODE_REQUIRED)
        self.assertEqual(verdict("ssh", onward_auth=OnwardAuth.STORED_KEY), "")
        self.assertEqual(verdict("ssh", onward_auth=OnwardAuth.PASSTHROUGH), ONWARD_AUTH_REFUSED)
        self.assertEqual(verdict("tcp", onward_auth=OnwardAuth.CERTIFICATE), ONWARD_AUTH_REFUSED)
        self.assertEqual(verdict("ssh", found), MODE_REQUIRED)
        theirs = evolve(found, identity=found_identity("n2", "x"))
        self.assertEqual(verdict("ssh", theirs), FOUND_BY_PEER)
        row = Offer(SourceKey("n1", "s"), PublishedResource("r1", "tcp"), 1.0)
        nothing = settle([row], None, SettlementRules(scopes=[], nodes=NODES, kinds={"tcp"}))
        self.assertEqual(nothing.refusal, NO_SCOPE)

    @proves("G-OPEN-61", "X-40")
    def test_scopes_that_are_none(self) -> None:
        """A scope with ssh needs a way to sign on, an empty list is none, and it is named."""
        for change, said in (
            ({"kinds": ("tcp", "ssh")}, "scope lab: onward_auth is required because kinds"),
            ({"kinds": ()}, "scope lab: kinds is required"),
            ({"kinds": ("tcp", "tcp")}, "scope lab: kinds: a word is listed twice"),
            ({"kinds": ("TCP",)}, "scope lab: kinds: each must be a kind's name"),
            ({"connectors": ("a b",)}, "scope lab: connectors"),
            ({"id_prefix": "-x"}, "scope lab: id_prefix"),
            ({"labels": {"discovered.tier": "x"}}, "scope lab: label"),
            ({"match_labels": {"tier": "x" * 300}}, "scope lab: label tier: its value is longer"),
            ({"name": "Lab"}, "one DNS label"),
        ):
            scope = DiscoveryScope(**{"name": "lab", "kinds": ("tcp",), **change})  # type: ignore[arg-type]
            with self.assertRaises(Malformed) as refused:
                check_scope(scope)
            self.assertIn(said, refused.exception.text)
