"""What a signed record says of a protected row."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from attrs import evolve, fields
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Malformed
from svc.model.audit.rows.catalog import resource_entry
from svc.model.audit.state import (
    StateChange,
    StateEntry,
    access_decision_entry,
    access_entry,
    certificate_entry,
    expected_entry,
    identity_entry,
    node_entry,
    person_entry,
    policy_entry,
    policy_version,
    read_change,
    secret_entry,
    sign_in_entry,
    token_entry,
)
from svc.model.canonical import decode, encode
from svc.model.cluster.account import PersonSecret, SecretKind
from svc.model.cluster.node import (
    ExpectedKey,
    KeptToken,
    Leaf,
    Node,
    NodeState,
    Publication,
    TokenRecord,
    TokenRole,
)
from svc.model.cluster.person import IssuedCertificate, Person, PersonState
from svc.model.cluster.resource import Resource
from svc.model.cluster.sign_in import IdentityLink, SignIn
from svc.model.policy.requested import KeptApproval, RequestedAccess, RequestState
from svc.model.policy.version import PolicyVersion

text = st.text(st.characters(codec="utf-8"), max_size=8)
digests = st.binary(min_size=32, max_size=32)
moments = st.floats(0, 4e9)
texts = st.lists(text, max_size=3).map(tuple)
leaves = st.builds(Leaf, text, digests, moments)
nodes = st.builds(
    Node,
    text,
    text,
    text,
    digests,
    digests,
    leaves,
    moments,
    st.integers(1, 2**62),
    st.sampled_from(NodeState),
    names=texts,
    publication=st.sampled_from(Publication),
)
people = st.builds(
    Person,
    text,
    text,
    st.sampled_from(PersonState),
    st.lists(text, max_size=3, unique=True).map(lambda names: tuple(sorted(names))),
    st.binary(),
)
tokens = st.builds(
    KeptToken,
    st.builds(
        TokenRecord, text, digests, st.sampled_from(TokenRole), moments, st.none() | text, texts
    ),
    st.none() | st.just(1.0),
)
expected = st.builds(
    ExpectedKey,
    text,
    st.sampled_from(TokenRole),
    text,
    digests,
    text,
    moments,
    texts,
    st.none() | st.just(1.0),
)
certificates = st.builds(
    IssuedCertificate, digests, text, text, st.just(1.0), moments, st.none() | st.just(1.0)
)
resources = st.builds(
    Resource,
    text,
    text,
    st.dictionaries(text, text, max_size=3),
    st.none() | text,
    revision=st.integers(0, 2**62),
    identity=text,
    assignment_revision=st.integers(0, 2**31),
)
identities = st.builds(IdentityLink, text, text, text, text, st.binary(max_size=16))
sign_ins = st.builds(
    SignIn,
    id=text,
    identity_id=text,
    person_id=text,
    auth_time=moments,
    began_at=st.just(1.0),
    ends_at=moments,
    certificate_sha256=digests,
    key_sha256=digests,
    generation=st.integers(1, 2**31),
    refresh=st.binary(max_size=16),
    ended_at=st.none() | st.just(1.0),
)
secrets = st.builds(
    PersonSecret,
    id=text,
    person_id=text,
    kind=st.sampled_from(SecretKind),
    sealed=st.binary(max_size=16),
    added_at=st.just(1.0),
    counter=st.none() | st.integers(0, 2**53),
    expires_at=st.none() | moments,
)
requests = st.builds(
    RequestedAccess,
    id=text,
    person_id=text,
    resource_id=text,
    resource_identity=text,
    kind=text,
    action=text,
    parameters=st.dictionaries(st.sampled_from(["a", "b"]), text, max_size=2),
    reason=text,
    salt=st.binary(max_size=16),
    asked_secs=st.integers(1, 2**31),
    uses=st.none() | st.integers(1, 2**31),
    used=st.integers(0, 2**31),
    asked_at=moments,
    ends_at=moments,
    state=st.sampled_from(RequestState),
    text_sha256=text,
)
decisions = st.builds(
    KeptApproval,
    request_id=text,
    approver=text,
    certificate_sha256=digests,
    payload=st.binary(max_size=16),
    signature=st.binary(max_size=16),
    certificate=st.binary(max_size=16),
    decided_at=st.just(1.0),
    ends_at=moments,
)
policies = st.builds(
    PolicyVersion, st.integers(1, 2**62), text, digests, text, moments, st.none() | st.just(1.0)
)
SORTS: tuple[tuple[Any, Any], ...] = (
    (nodes, node_entry),
    (people, person_entry),
    (tokens, token_entry),
    (expected, expected_entry),
    (certificates, certificate_entry),
    (resources, resource_entry),
    (identities, identity_entry),
    (sign_ins, sign_in_entry),
    (secrets, secret_entry),
    (policies, policy_entry),
    (requests, access_entry),
    (decisions, access_decision_entry),
    (policies, policy_entry),
)
NOTHING_DECIDED = {"enrolled_at", "began_at", "added_at", "decided_at"}
"""Drawn above, and in no digest; the other such fields are left at their defaults."""

entries = st.builds(
    StateEntry,
    text.map(lambda id: f"node:{id}"),
    st.none() | digests,
    st.none() | st.integers(0, 2**53 - 1),
)
changes = st.builds(
    StateChange,
    st.integers(1, 2**53 - 1),
    digests,
    st.lists(entries, min_size=1, max_size=3).map(tuple),
    st.none() | st.integers(0, 2**53 - 1),
)


class DigestTests(SynchronousTestCase):
    """Rows and their digests."""

    @given(st.data())
    def test_different_rows_have_different_digests(self, data: st.DataObject) -> None:
        """Two rows have one digest exactly where they are the same in all that decides."""
        rows, entry_of = data.draw(st.sampled_from(SORTS))
        one, other = data.draw(rows), data.draw(rows)
        kept = {name: getattr(one, name) for name in NOTHING_DECIDED if hasattr(one, name)}
        other = evolve(other, **kept)
        self.assertEqual(entry_of(one) == entry_of(other), one == other)

    @given(st.data())
    def test_each_field(self, data: st.DataObject) -> None:
        """A change of any one field that decides anything changes the digest."""
        rows, entry_of = data.draw(st.sampled_from(SORTS))
        one, other = data.draw(rows), data.draw(rows)
        names = [each.name for each in fields(type(one)) if each.name not in NOTHING_DECIDED]
        name = data.draw(st.sampled_from(names))
        changed = evolve(one, **{name: getattr(other, name)})
        self.assertEqual(entry_of(one) == entry_of(changed), one == changed)

    def test_last_uses_are_not_in_it(self) -> None:
        """Where a row was last seen or served decides nothing, and changes no digest."""
        node = Node(
            id="n",
            name="edge",
            role="proxy",
            key_sha256=b"k" * 32,
            audit_key=b"a" * 32,
            leaf=Leaf("1", b"l" * 32, 9.0),
            enrolled_at=1.0,
        )
        seen = evolve(node, last_seen=7.0, version="9", enrolled_at=3.0)
        self.assertEqual(node_entry(node), node_entry(seen))
        resource = Resource("db1", "tcp")
        served = evolve(resource, last_served_at=7.0, last_served_by="n")
        self.assertEqual(resource_entry(resource), resource_entry(served))

    def test_a_node_of_before_publication(self) -> None:
        """What was signed of a node before publication could be chosen is in force."""
        signed = (
            f'{{"audit_key":"{"61" * 32}","generation":"1","key":"{"6b" * 32}",'
            f'"leaf":["1","{"6c" * 32}","0x1.2000000000000p+3"],"name":"edge","names":[],'
            '"role":"connector","state":"active","subject":"node:n"}'
        )
        digest = sha256(b"svc-state-row-v1\0" + signed.encode()).digest()
        row = Node(
            id="n",
            name="edge",
            role="connector",
            key_sha256=b"k" * 32,
            audit_key=b"a" * 32,
            leaf=Leaf("1", b"l" * 32, 9.0),
            enrolled_at=1.0,
        )
        self.assertEqual(node_entry(row), StateEntry("node:n", digest))

    def test_a_resource_of_before_identities(self) -> None:
        """What was signed of a resource before identities and bindings were kept is in force."""
        for node, assigned in (("n1", '"n1"'), (None, "null")):
            signed = (
                f'{{"assigned_to":{assigned},"kind":"tcp","labels":[["env","prod"]],'
                '"revision":"7","source":"manual","subject":"resource:db1"}'
            )
            digest = sha256(b"svc-state-row-v1\0" + signed.encode()).digest()
            row = Resource(
                id="db1", kind="tcp", labels={"env": "prod"}, assigned_to=node, revision=7
            )
            self.assertEqual(resource_entry(row), StateEntry("resource:db1", digest))

    @given(st.floats())
    def test_any_time_in_a_table(self, at: float) -> None:
        """Whatever number somebody writes into a column has a digest and a time."""
        entry = certificate_entry(
            IssuedCertificate(
                sha256=b"1" * 32, serial="1", person_id="p", issued_at=1.0, expires=at
            )
        )
        self.assertEqual(read_change(StateChange(1, b"0" * 32, (entry,)).form()).rows, (entry,))

    def test_versions(self) -> None:
        """Only a policy's subject names a version."""
        words = ("policy:7", "policy:x", "person:7", "policy:", "policy:-1")
        self.assertEqual([policy_version(one) for one in words], [7, 0, 0, 0, 0])


class FormTests(SynchronousTestCase):
    """The member ``state``."""

    @given(changes)
    def test_comes_back(self, change: StateChange) -> None:
        """What was written into a record is read from it."""
        self.assertEqual(read_change(decode(encode(change.form()))), change)

    @given(changes, st.data())
    def test_other_forms_are_refused(self, change: StateChange, data: st.DataObject) -> None:
        """A member too few, too many or of another sort is refused, and nothing else happens."""
        form: dict[str, Any] = dict(change.form())
        name = data.draw(st.sampled_from(("n", "prev", "rows", "other")))
        odd: Any = data.draw(
            st.sampled_from((None, -1, True, "x", [], [[]], [["a", None]], {}, [[1, 2]]))
        )
        self.assertRaises(Malformed, read_change, {**form, name: odd})
        if name in form:
            del form[name]
            self.assertRaises(Malformed, read_change, form)
