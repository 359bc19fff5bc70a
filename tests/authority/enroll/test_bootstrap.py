"""Joining and renewing: a token is good once, a certificate has one holder."""

from __future__ import annotations

from typing import Any

import attrs
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ed25519
from twisted.trial.unittest import SynchronousTestCase

from svc.authority.enroll.renew import NodeRenewal
from svc.authority.state.recorder import Recorder, operator
from svc.errors import Denied, SvcError, Unauthenticated, Unavailable
from svc.interfaces.rpc import Peer
from svc.model.audit.ledger import ChainRow
from svc.model.audit.spool import prove_audit_key
from svc.model.cluster.node import NodeState
from svc.model.cluster.token import make_token
from svc.model.principal import NODE_ROLES, Role
from svc.pki.enroll import CertificateIssuer
from svc.pki.issue import make_request, prove_key
from svc.pki.root import new_key
from svc.proto.gate.v1 import admin_pb2
from svc.proto.gate.v1 import bootstrap_pb2 as pb
from tests.authority.house import ADA, Call, House, outcome, refusal_of, value_of
from tests.support.proof import proves

ROOT = operator(0)


class Undone(Recorder):
    """Its records fail once they are written."""

    def append(self, *args: Any, **fields: Any) -> ChainRow:
        """Write, then fail."""
        super().append(*args, **fields)
        raise Unavailable("the record is not kept", reason="store_unavailable")


def _given(recorder: Recorder) -> dict[str, Any]:
    """What a recorder was made with, to make another."""
    return {
        one.alias or one.name: getattr(recorder, one.name)
        for one in attrs.fields(Recorder)
        if one.init
    }


class JoinTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.house = house = House()
        self.issuer = CertificateIssuer(house.world.keys)
        self.sent_at_ms = 0
        self.enrollment = house.enrollment(self.issuer)
        self.members = house.members()

    def token(self, name: str = "edge2", role: str = "proxy", names: Any = (), ttl: int = 0) -> str:
        request = admin_pb2.AddNodeRequest(name=name, role=role, public_names=names, ttl_secs=ttl)
        return str(value_of(self.members.add_node(request, ROOT)).token)

    def persons_token(self, name: str = "ada", groups: Any = ()) -> str:
        request = admin_pb2.AddPersonRequest(
            name=name, groups=groups, create_groups=True, join_groups=True
        )
        return str(value_of(self.house.people().add_person(request, ROOT)).token)

    def joining(self, token: str, key: Any = None, audit: Any = None, **said: bytes) -> Any:
        csr, audit = make_request(key or new_key()), audit or ed25519.Ed25519PrivateKey.generate()
        request = pb.EnrollRequest(
            token=token,
            csr=csr,
            version="0.11",
            sent_at_ms=self.sent_at_ms,
            audit_public_key=said.get("public", audit.public_key().public_bytes_raw()),
            audit_proof=said.get("proof", prove_audit_key(audit, csr)),
        )
        call = Call()
        call.give(request.SerializeToString(), None)
        serving = self.enrollment.service().methods["Enroll"](call)

        async def answer() -> pb.EnrollResponse:
            await serving
            return pb.EnrollResponse.FromString(call.sent[0])

        return answer()

    def join(self, *args: Any, **more: Any) -> pb.EnrollResponse:
        joined = value_of(self.joining(*args, **more))
        assert isinstance(joined, pb.EnrollResponse)
        return joined

    def refused(self, *args: Any, **more: Any) -> str:
        return refusal_of(self.joining(*args, **more)).reason

    @proves("G-IDN-13")
    def test_an_ended_leaf(self) -> None:
        """A node whose leaf ended proves nothing by it; a token makes it the same node again."""
        tokens = [self.token(ttl=7 * 86400) for _ in range(2)]
        key, audit = new_key(), ed25519.Ed25519PrivateKey.generate()
        joined = self.join(tokens[0], key, audit)
        verifier = self.house.world.verifier
        shown = verifier.verify(tuple(joined.chain), NODE_ROLES)
        self.house.clock.advance(shown.not_after - self.house.now() + 1)
        refused = self.assertRaises(SvcError, verifier.verify, tuple(joined.chain), NODE_ROLES)
        self.assertEqual(refused.reason, "certificate_expired")
        again = self.join(tokens[1], key, audit)
        self.assertEqual(again.principal, joined.principal)
        newer = verifier.verify(tuple(again.chain), NODE_ROLES)
        self.assertEqual(newer.generation, 2)

    @proves("G-IDN-10", "G-OPEN-07")
    def test_a_token_is_good_once(self) -> None:
        """A node joins by its token; the second use is refused and on record, and no secret is."""
        token = self.token(names=["gate.example.test"])
        joined = self.join(token)
        facts = self.house.world.verifier.verify(list(joined.chain), NODE_ROLES)
        self.assertEqual((facts.principal.uri, joined.name), (joined.principal, "edge2"))
        self.assertEqual(self.refused(token), "token_refused")
        enrolled, refused = self.house.records()[-2:]
        self.assertEqual((enrolled["event"], refused["event"]), ("node.enroll", "enroll.refused"))
        self.assertEqual(refused["reason"], "already_spent")
        dump = repr(self.house.run(lambda tx: (tx.tokens.waiting(0.0), tx.audit.rows(1, 100))))
        self.assertNotIn(token.split("_", 2)[2][:43], dump)

    def test_bad_tokens_are_answered_alike(self) -> None:
        """Spent, expired, unknown, wrong and revoked persons' tokens get one answer."""
        spent, old = self.token(), self.token("edge3", ttl=60)
        self.join(spent)
        persons = self.persons_token()
        self.house.run(lambda tx: tx.people.revoke(ADA, 1.0))
        self.house.clock.advance(60)
        other = make_token(lambda size: b"o" * size).text
        answers = set()
        for token in (spent, old, other, persons):
            refusal = refusal_of(self.joining(token))
            answers.add((refusal.reason, refusal.text, refusal.fault))
        self.assertEqual(len(answers), 1)
        reasons = [one["reason"] for one in self.house.records("enroll.refused")]
        self.assertEqual(reasons, ["already_spent", "expired", "revoked_person"])

    def test_what_is_malformed_costs_no_token(self) -> None:
        """A bad request leaves the token good."""
        token = self.token()
        self.assertEqual(self.refused(token, public=b"short"), "malformed")
        self.assertEqual(self.refused("svcj1_nothing"), "token_malformed")
        self.assertTrue(self.join(token).chain)

    def test_a_wrong_clock_costs_no_token(self) -> None:
        """A joiner whose clock is wrong is told by how much, and joins by the same token later."""
        for token in (self.token(), self.persons_token()):
            for offset, said in ((-90, "90 s behind"), (31, "31 s ahead")):
                self.sent_at_ms = int((self.house.now() + offset) * 1000)
                refusal = refusal_of(self.joining(token))
                self.assertEqual(refusal.reason, "clock_wrong")
                self.assertIn(said, refusal.text)
            self.sent_at_ms = int((self.house.now() - 29) * 1000)
            self.assertTrue(self.join(token).chain)
        self.assertEqual(self.house.records("enroll.refused"), [])

    def test_store_down_costs_no_token(self) -> None:
        """A joiner that met a store that was away joins by the same token later."""
        token = self.token()
        self.house.store.mood = "down"
        self.assertEqual(self.refused(token), "store_unavailable")
        self.house.store.mood = "well"
        self.assertTrue(self.join(token).chain)

    @proves("G-OPEN-16")
    def test_no_credential_without_its_record(self) -> None:
        """Where the record fails nobody joins, and nothing of it stays: the token is good still."""
        recorder = self.enrollment.recorder
        for token in (self.token(), self.persons_token()):
            before = len(self.house.records())
            self.enrollment.recorder = Undone(**_given(recorder))
            self.assertEqual(self.refused(token), "store_unavailable")
            self.enrollment.recorder = recorder
            self.assertEqual(len(self.house.records()), before)
            self.assertTrue(self.join(token).chain)
            self.assertIn(self.house.records()[-1]["event"], ("node.enroll", "person.enroll"))

    def test_names_come_from_the_token_only(self) -> None:
        """A Proxy's certificate carries the names its operator allowed, a Connector's none."""
        joined = self.join(self.token(names=["gate.example.test", "192.0.2.1"]))
        leaf = x509.load_der_x509_certificate(joined.chain[0])
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        self.assertEqual(names.get_values_for_type(x509.DNSName), ["gate.example.test"])
        request = admin_pb2.AddNodeRequest(name="c", role="connector", public_names=["a.test"])
        self.assertEqual(refusal_of(self.members.add_node(request, ROOT)).reason, "malformed")

    def test_a_key_joins_again_as_itself_only(self) -> None:
        """A registered key takes no other role, name or names by another token."""
        key = new_key()
        first, audit = self.token(), ed25519.Ed25519PrivateKey.generate()
        again = self.token()  # made before the first was used
        self.join(first, key, audit)
        for token in (
            self.token("conn2", "connector"),
            self.token("edge4"),
            self.token("edge5", names=["x.test"]),
        ):
            self.assertEqual(self.refused(token, key, audit), "node_differs")
        self.assertEqual(self.refused(again, key), "node_differs")
        self.join(again, key, audit)
        node = next(one for one in self.house.run(lambda tx: tx.nodes.all()) if one.name == "edge2")
        self.assertEqual(node.generation, 2)
        self.house.run(lambda tx: tx.nodes.revoke(node.id, 1.0))
        self.assertEqual(self.refused(self.token("edge6"), key, audit), "revoked_node")

    def test_an_audit_key_is_one_nodes_for_ever(self) -> None:
        """A second node with the audit key of one is refused, of a revoked one too; on record."""
        audit, token = ed25519.Ed25519PrivateKey.generate(), self.token("edge3")
        self.join(self.token("edge2"), audit=audit)
        self.assertEqual(self.refused(token, audit=audit), "audit_key_taken")
        node = next(one for one in self.house.run(lambda tx: tx.nodes.all()) if one.name == "edge2")
        self.house.run(lambda tx: tx.nodes.revoke(node.id, 1.0))
        self.assertEqual(self.refused(token, audit=audit), "audit_key_taken")
        (told, _) = self.house.records("enroll.refused")
        self.assertEqual(told["reason"], "audit_key_taken")
        self.assertTrue(self.join(token).chain, "the token is still good")

    def test_an_audit_key_is_proven(self) -> None:
        """Whoever brings an audit key shows that it has it, for the very request it brings."""
        mine, theirs = (ed25519.Ed25519PrivateKey.generate() for _ in range(2))
        token, key = self.token(), new_key()
        csr = make_request(key)
        for proof in (
            b"",
            bytes(64),
            b"x" * 100,
            prove_audit_key(theirs, csr),
            prove_audit_key(mine, make_request(new_key())),
            mine.sign(csr),
        ):
            self.assertEqual(self.refused(token, key, mine, proof=proof), "audit_key_unproven")
        self.assertEqual(self.refused(token, audit=mine, public=b"\xff" * 32), "audit_key_unproven")
        self.assertTrue(self.join(token, key, mine).chain)

    def test_persons_join_and_are_known(self) -> None:
        """A person's certificate is in the table once it left; groups named again are joined."""
        joined = self.join(self.persons_token("ada", ["dev", "ops"]))
        self.assertTrue(joined.principal.endswith(f"/user/{ADA}"))
        issued = self.house.run(lambda tx: tx.certificates.of(ADA))
        self.assertEqual(len(issued), 2)
        self.assertEqual(self.house.state_cache.state.people[ADA].groups, ("dev", "ops"))
        events = [one["event"] for one in self.house.records()]
        self.assertEqual(events, ["group.add", "group.join", "token.create", "person.enroll"])

    def expect(self, key: Any, name: str = "edge2", role: str = "proxy", **more: Any) -> str:
        digest = prove_key(make_request(key)).sha256
        request = admin_pb2.ExpectNodeRequest(name=name, role=role, key_sha256=digest, **more)
        return str(value_of(self.members.expect_node(request, ROOT)).id)

    def test_an_expected_key_joins_once(self) -> None:
        """A node joins by a key that was named beforehand, as what was named, once."""
        key = new_key()
        self.assertEqual(self.refused("", key), "key_refused")  # nobody expects it yet
        waits = self.expect(key, public_names=["gate.example.test"])
        joined = self.join("", key)
        facts = self.house.world.verifier.verify(list(joined.chain), NODE_ROLES)
        self.assertEqual((facts.principal.uri, joined.name), (joined.principal, "edge2"))
        self.assertEqual(facts.principal.role, Role.PROXY)
        self.assertEqual(self.refused("", key), "key_refused")
        self.assertEqual(self.refused("", new_key()), "key_refused")
        expected, enrolled, refused = self.house.records()
        self.assertEqual(
            [expected["event"], enrolled["event"], refused["event"], refused["reason"]],
            ["key.expect", "node.enroll", "enroll.refused", "already_spent"],
        )
        for record in (expected, enrolled, refused):
            self.assertEqual(record["details"]["expected_id"], waits)
        digest = prove_key(make_request(key)).sha256.hex()
        self.assertEqual(enrolled["details"]["key_digest"], digest)
        again = refusal_of(
            self.members.expect_node(
                admin_pb2.ExpectNodeRequest(
                    name="e", role="proxy", key_sha256=bytes.fromhex(digest)
                ),
                ROOT,
            )
        )
        self.assertEqual(again.reason, "already_exists")
        self.join(self.token("edge2x"), new_key())  # a token is as good as ever

    def test_keys_that_are_not_good(self) -> None:
        """A key that is withdrawn, too old, or that nobody signed for, joins as little."""
        withdrawn, old, forged, good = (new_key() for _ in range(4))
        issuer = self.members.expected
        waits = self.expect(withdrawn, "c1", "connector")
        value_of(issuer.withdraw(admin_pb2.WithdrawExpectedRequest(id=waits), ROOT))
        twice = issuer.withdraw(admin_pb2.WithdrawExpectedRequest(id=waits), ROOT)
        self.assertEqual(refusal_of(twice).reason, "unknown_key")
        self.expect(old, "c2", "connector", ttl_secs=60)
        self.expect(good, "c3", "connector", ttl_secs=61)
        self.house.clock.advance(60)
        digest = prove_key(make_request(forged)).sha256.hex()
        self.house.by_sql(
            "INSERT INTO bootstrap_identities (id, role, name, key_sha256, issuer, created_at,"
            f" expires_at) VALUES ('x', 'proxy', 'x', x'{digest}', 'local:0', 1.0, 9e9)",
            "UPDATE bootstrap_identities SET used_at = NULL",
            "UPDATE bootstrap_identities SET role = 'proxy' WHERE name = 'c3'",
        )
        for key, word in (
            (withdrawn, "state_unsigned"),
            (old, "expired"),
            (forged, "state_unsigned"),
            (good, "state_unsigned"),
        ):
            self.assertEqual(self.refused("", key), "key_refused")
            record = self.house.records("enroll.refused")[-1]
            self.assertEqual(record["reason"], word)
        self.assertEqual(len(self.house.records("enroll.refused")), 4)
        self.house.by_sql("UPDATE bootstrap_identities SET role = 'connector' WHERE name = 'c3'")
        self.assertTrue(self.join("", good).chain)

    def test_keys_that_may_not_join_so(self) -> None:
        """A refused join by an expected key is on record, and leaves the key waiting."""
        key, member = new_key(), new_key()
        waits = {
            "audit_key_unproven": self.expect(key, "c1", "connector"),
            "node_differs": self.expect(member, "c2", "connector"),
        }
        waits["revoked_node"] = waits["node_differs"]
        self.join(self.token("edge9"), member)
        self.assertEqual(self.refused("", key, proof=bytes(64)), "audit_key_unproven")
        self.assertEqual(self.refused("", member), "node_differs")
        value_of(self.members.revoke_node(admin_pb2.RevokeNodeRequest(node="edge9"), ROOT))
        self.assertEqual(self.refused("", member), "revoked_node")
        refused = self.house.records("enroll.refused")
        self.assertEqual({one["reason"]: one["details"]["expected_id"] for one in refused}, waits)
        self.assertTrue(self.join("", key).chain)

    def test_a_key_whose_time_is_long_over(self) -> None:
        """A key that ended days ago is answered as one that ended now; it waits for nobody."""
        key = new_key()
        waits = self.expect(key, "c1", "connector", ttl_secs=60)
        for secs in (60, 3 * 86_400):
            self.house.clock.advance(secs)
            value_of(self.house.state_cache.reload())
            self.assertEqual(self.refused("", key), "key_refused")
            withdrawing = self.members.expected.withdraw(
                admin_pb2.WithdrawExpectedRequest(id=waits), ROOT
            )
            self.assertEqual(refusal_of(withdrawing).reason, "unknown_key")
        reasons = [one["reason"] for one in self.house.records("enroll.refused")]
        self.assertEqual(reasons, ["expired", "expired"])

    def test_who_may_expect_whom(self) -> None:
        """A key is a SHA-256, the node is no Authority, and no name is taken twice."""
        for fields in (
            {"key_sha256": b"short"},
            {"role": "authority"},
            {"name": ""},
            {"ttl_secs": 10**7},
            {"role": "connector", "public_names": ["a.test"]},
        ):
            form: Any = {"name": "e", "role": "proxy", "key_sha256": bytes(32), **fields}
            asked = self.members.expect_node(admin_pb2.ExpectNodeRequest(**form), ROOT)
            self.assertEqual(refusal_of(asked).reason, "malformed", fields)
        taken = admin_pb2.ExpectNodeRequest(name="edge1", role="proxy", key_sha256=bytes(32))
        self.assertEqual(refusal_of(self.members.expect_node(taken, ROOT)).reason, "already_exists")
        self.assertEqual(self.house.records(), [])

    def test_joiners_cannot_fill_the_log(self) -> None:
        """A spent token tried again and again leaves a bounded number of records."""
        token = self.token()
        self.join(token)
        for _ in range(100):
            self.refused(token)
        self.assertEqual(len(self.house.records("enroll.refused")), 60)


class RenewalTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.house = house = House()
        self.revoked: list[str] = []
        self.issuer = NodeRenewal(
            issuer=CertificateIssuer(house.world.keys),
            state_cache=house.state_cache,
            verifier=house.world.verifier,
            store=house.store,
            recorder=house.recorder,
            now=house.now,
            revoked=self.revoked.append,
            renewals=house.rates.renewals,
        )

    def shown(self, chain: Any) -> Any:
        return self.house.world.verifier.verify(chain, NODE_ROLES)

    def renew(self, chain: Any, key: Any = None) -> tuple[bytes, ...]:
        csr = make_request(key or new_key())
        renewed = value_of(self.issuer.renew(self.shown(chain), csr))
        assert isinstance(renewed, tuple)
        return renewed

    def test_renewed_again_and_again(self) -> None:
        """Each renewal is one generation further and on record."""
        chain = self.house.connector.chain
        for generation in range(2, 6):
            chain = self.renew(chain)
            self.assertEqual(self.shown(chain).generation, generation)
        self.assertEqual(len(self.house.records("node.renew")), 4)

    def test_lost_answer(self) -> None:
        """A node whose answer was lost asks again with the same key and gets it."""
        key, chain = new_key(), self.house.connector.chain
        self.renew(chain, key)
        self.assertEqual(self.shown(self.renew(chain, key)).generation, 2)
        self.assertEqual(self.revoked, [])

    def test_clone(self) -> None:
        """A second holder of an identity ends it for both: revoked, recorded, evicted."""
        chain = self.house.connector.chain
        newer = self.renew(chain)
        refusal = refusal_of(self.issuer.renew(self.shown(chain), make_request(new_key())))
        self.assertEqual(refusal.reason, "identity_cloned")
        self.assertEqual(self.revoked, [self.house.connector.id])
        self.assertEqual(self.house.row(self.house.connector).state, NodeState.REVOKED)
        events = [one["event"] for one in self.house.records()][-2:]
        self.assertEqual(events, ["renew.refused", "node.revoke"])
        again = self.issuer.renew(self.shown(newer), make_request(new_key()))
        self.assertEqual(refusal_of(again).reason, "identity_revoked")

    def test_who_may_renew(self) -> None:
        """Only an active node of the registry starts a renewal."""
        self.issuer.admit("/m", self.house.peer(self.house.connector))
        for peer, error in (
            (Peer("192.0.2.1", 1), Unauthenticated),
            (self.house.peer(self.house.ada), SvcError),
        ):
            with self.assertRaises(error):
                self.issuer.admit("/m", peer)
        self.house.run(lambda tx: tx.nodes.revoke(self.house.connector.id, 1.0))
        self.house.refresh()
        with self.assertRaises(Denied):
            self.issuer.admit("/m", self.house.peer(self.house.connector))

    def test_store_down_renews_nothing(self) -> None:
        """No certificate leaves while its record cannot be written."""
        self.house.store.mood = "down"
        renewing = self.issuer.renew(self.shown(self.house.proxy.chain), make_request(new_key()))
        self.assertEqual(refusal_of(renewing).reason, "store_unavailable")
        self.house.store.mood = "silent"
        waiting = self.issuer.renew(self.shown(self.house.proxy.chain), make_request(new_key()))
        self.assertEqual(outcome(waiting), [])
