"""What Authority tells targets of sessions: about whom, through whom, and what is recorded."""

from __future__ import annotations

from typing import Any

import jwt
from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from svc.authority.enroll.token_keys import TokenKeys
from svc.authority.sessions.identity import SessionIdentities
from svc.errors import Malformed, SvcError, Unauthenticated
from svc.messages.control import CountedEnd
from svc.messages.identity import TokenAsk, token_request
from svc.messages.session import decode_grant, decode_request, encode_grant
from svc.model.cluster.agent import Agent, AgentCertificate, Delegation
from svc.model.cluster.person import Person
from svc.model.principal import Role
from svc.model.session.identity import LIFETIME_SECS, MOST_GROUPS_BYTES, Named
from svc.model.signing import Purpose, Signed, sign
from svc.proto.gate.v1 import identity_pb2 as pb
from tests.authority.house import ADA, EVE, KINDS, POLICY, Call, Holder, House, value_of
from tests.pki.support import CLUSTER
from tests.support.nothing import nothing_later
from tests.support.proof import proves

BOB, CARL = "d" * 26, "e" * 26
ACTING = f"""
@id("ada-acts")
permit (principal == User::"{ADA}", action == Action::"actAs", resource)
unless {{ resource.name == "carl" }};
"""


class IdentityTests(SynchronousTestCase):
    """A session of ada's on db1.

    Attributes:
        whose: The id of the session's holder.
        gone: Why nothing is told after ada was revoked.
    """

    whose = ADA
    gone = "revoked_person"

    def setUp(self) -> None:
        self.house = House(POLICY + ACTING)
        self.house.run(self.people)
        self.house.refresh()
        self.house.serve("db1")
        self.issuance = self.house.issuance()
        self.ask = self.house.ask(self.house.ada)
        answer = value_of(self.issuance.authorize(self.ask, self.house.row(self.house.proxy)))
        self.grant: Signed = answer.grant
        self.uid = decode_request(self.ask.request).session_uid
        house = self.house
        self.keys = TokenKeys(house.world.keys, house.now, nothing_later)
        self.identities = SessionIdentities(
            cluster=CLUSTER,
            state_cache=house.state_cache,
            engine=lambda: house.policy.engine,
            kinds=KINDS,
            verifier=house.world.verifier,
            store=house.store,
            recorder=house.recorder,
            refusals=house.refusals,
            sign=self.keys.sign,
            asks=house.rates.identities,
            now=house.now,
            entropy=house.entropy,
        )

    def people(self, tx: Any) -> None:
        tx.people.add(Person(BOB, "bob", groups=("dev",)), 1.0)
        tx.people.add(Person(CARL, "carl", groups=("dev",)), 1.0)

    def told(
        self, named: str = "", grant: Signed | None = None, by: Holder | None = None
    ) -> dict[str, Any]:
        """The claims that a Connector got."""
        call: Any = Call(self.house.peer(by or self.house.connector))
        request = token_request(TokenAsk(grant or self.grant, named))
        call.give(request.SerializeToString(), None)
        self.serve(call)
        token = pb.IdentityResponse.FromString(call.sent[0]).token
        said: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
        return said

    def serve(self, call: Any) -> None:
        serving: Any = self.identities.service().methods["Token"](call)
        value_of(serving)

    def refused(self, *words: Any, **more: Any) -> str:
        with self.assertRaises(SvcError) as caught:
            self.told(*words, **more)
        return str(caught.exception.reason)

    def granted(self, **changed: Any) -> Signed:
        """Another grant, as Authority signs it."""
        grant = evolve(decode_grant(self.grant.payload), **changed)
        return self.house.world.keys.signer(Purpose.GRANT)(encode_grant(grant))

    def records(self, event: str) -> list[Any]:
        return [one for one in self.house.records() if one["event"] == event]

    def test_claims(self) -> None:
        """They are the person, the resource, the session and a minute; each token is on record."""
        said = self.told()
        now, resource = int(self.house.now()), self.house.state_cache.state.catalog["db1"]
        self.assertEqual(
            {name: said[name] for name in ("iss", "aud", "sub", "name", "groups", "sid")},
            {
                "iss": CLUSTER,
                "aud": resource.identity,
                "sub": ADA,
                "name": "ada",
                "groups": ["dev"],
                "sid": self.uid,
            },
        )
        self.assertEqual(said["exp"] - said["nbf"], LIFETIME_SECS)
        self.assertTrue(said["nbf"] < said["iat"] == now < said["exp"])
        (start,) = self.records("session.start")
        self.assertEqual(said["decision_id"], start["decision_id"])
        self.assertEqual(said["audit_hash"], decode_grant(self.grant.payload).audit_hash.hex())
        self.assertNotIn("act", said)
        (record,) = self.records("credential.issue")
        self.assertEqual(record["actor"], {"kind": "person", "id": ADA})
        self.assertEqual(
            (record["session_uid"], record["resource_id"], record["details"]["serial"]),
            (self.uid, "db1", said["jti"]),
        )
        self.assertNotEqual(self.told()["jti"], said["jti"])

    def test_acting(self) -> None:
        """Who is named stands beside the person, never in its place; the policy is on record."""
        said = self.told("bob")
        self.assertEqual((said["sub"], said["act"]["sub"], said["act"]["name"]), (ADA, BOB, "bob"))
        (record,) = self.records("credential.issue")
        self.assertEqual((record["details"]["acts_as"], record["policies"]), (BOB, ["ada-acts"]))
        self.assertNotIn("act", self.told("ada"))

    def test_one_answer(self) -> None:
        """Who is not there, who may not be named and who may not get in are answered alike."""
        said = set()
        for name in ("nobody", "carl", "eve", "*"):
            with self.assertRaises(SvcError) as caught:
                self.told(name)
            refusal = caught.exception
            said.add((refusal.reason, refusal.text, refusal.fault, str(refusal.details)))
        self.assertEqual(len(said), 1)
        refused = self.records("identity.refused")
        self.assertEqual({one["reason"] for one in refused}, {"identity_denied"})
        self.assertEqual(len(refused), 4)
        self.assertEqual(self.records("credential.issue"), [])

    def test_only_its_connector(self) -> None:
        """Another Connector, and a session that the store does not have, get the same answer."""
        other = self.house.node(Role.CONNECTOR, "conn2")
        self.house.refresh()
        self.assertEqual(self.refused(by=other), "unknown_session")
        self.assertEqual(self.refused(grant=self.granted(session_uid="00" * 16)), "unknown_session")
        self.assertEqual(self.refused(grant=self.granted(cluster="other")), "unknown_session")
        with self.assertRaises(SvcError):
            self.told(by=self.house.proxy)
        self.assertEqual(self.records("credential.issue"), [])

    def test_by_sql(self) -> None:
        """Whoever changes the row of a session makes nobody somebody else, nor it another's."""
        said, other = self.told(), self.house.node(Role.CONNECTOR, "conn2")
        self.house.serve("db1", "prod1")
        self.house.refresh()
        self.house.by_sql(
            f"UPDATE sessions SET person_id = '{EVE}', resource_id = 'prod1',"
            f" kind = 'ssh', connector_id = '{other.id}' WHERE uid = '{self.uid}'"
        )
        changed = self.house.store.store.run(
            "changed", lambda tx: tx.sessions.get(self.uid).person_id
        )
        self.assertEqual(value_of(changed), EVE)
        again = self.told()
        self.assertEqual([again[one] for one in ("sub", "aud")], [self.whose, said["aud"]])
        self.assertEqual(self.told("bob")["sub"], self.whose)
        self.assertEqual(self.refused("nobody"), "identity_denied")
        self.assertEqual(self.refused(by=other), "unknown_session")
        self.house.by_sql(f"UPDATE sessions SET decision_id = '{'d' * 32}'")
        self.assertEqual(self.refused(), "unknown_session")
        for record in self.records("credential.issue") + self.records("identity.refused"):
            about = record["actor"]["id"], record["resource_id"], record["node_id"]
            self.assertEqual(about, (self.whose, "db1", self.house.connector.id))

    def test_altered_grants(self) -> None:
        """A grant that Authority's grant key did not sign says nothing."""
        victim = encode_grant(evolve(decode_grant(self.grant.payload), person_id=EVE))
        self.assertEqual(self.refused(grant=evolve(self.grant, payload=victim)), "bad_signature")
        connector = self.house.connector
        own = Signed(victim, sign(connector.key, Purpose.GRANT, victim), connector.chain)
        with self.assertRaises(SvcError):
            self.told(grant=own)
        self.assertEqual(self.records("credential.issue"), [])

    def test_no_grant(self) -> None:
        """A request without a grant, as Connectors of before make it, gets no token."""
        call: Any = Call(self.house.peer(self.house.connector))
        call.give(pb.IdentityRequest(named="bob").SerializeToString(), None)
        with self.assertRaises(Malformed):
            self.serve(call)
        self.assertEqual(call.sent, [])

    def test_another_resource(self) -> None:
        """Nobody is told to one that has got the name of the granted one since."""
        grant = self.granted(resource_identity="f" * 26)
        self.assertEqual(self.refused(grant=grant), "resource_changed")

    def test_being_ended(self) -> None:
        """An operator's word is enough, before the session is over."""
        self.house.run(lambda tx: tx.sessions.ask_end(self.uid, "operator_ended"))
        self.assertEqual(self.refused(), "session_over")

    def test_unknown_address(self) -> None:
        """What the policy permits only from an address is not permitted to who names a person."""
        self.assertIn("act", self.told("bob"))
        rule = ACTING.replace(
            "unless {",
            "when { context has proxy_reported.source_address && "
            'context.proxy_reported.source_address == ip("192.0.2.7") } unless {',
        )
        house = House(POLICY + rule)
        house.run(self.people)
        house.refresh()
        self.identities.engine = lambda: house.policy.engine
        self.assertEqual(self.refused("bob"), "identity_denied")

    def test_nobody(self) -> None:
        """A caller without a certificate is told nothing."""
        call: Any = Call()
        call.give(token_request(TokenAsk(self.grant)).SerializeToString(), None)
        with self.assertRaises((Unauthenticated, SvcError)):
            self.serve(call)
        self.assertEqual(call.sent, [])

    def test_over(self) -> None:
        """Of a session that has ended, and of a person who was revoked, nobody is told."""
        self.house.run(lambda tx: tx.people.revoke(ADA, 2.0))
        self.house.refresh()
        self.assertEqual(self.refused(), self.gone)
        ended = (CountedEnd(self.uid, "closed"),)
        value_of(self.house.ends().reported(self.house.proxy.id, ended))
        self.assertEqual(self.refused(), "session_over")

    def test_not_recorded(self) -> None:
        """A token leaves only once its record is durable."""
        self.house.store.mood = "commits, then down"
        self.assertEqual(self.refused(), "store_unavailable")

    def test_budget(self) -> None:
        """A Connector that asks without end is refused before the store is asked."""
        buckets = self.identities.asks.buckets
        buckets.rate = evolve(buckets.rate, burst=1.0, per_minute=1.0)
        self.told()
        self.house.store.mood = "down"
        self.assertEqual(self.refused(), "too_many_requests")


class NamedTests(SynchronousTestCase):
    def test_many_groups(self) -> None:
        """Groups that would not fit into a header field are left out as a whole, and it says so."""
        groups = tuple(f"group-{n:03}" for n in range(MOST_GROUPS_BYTES // 9 + 1))
        self.assertEqual(Named(EVE, "", groups).claims(), {"groups_omitted": True})
        self.assertEqual(Named(EVE, "eve").claims(), {"name": "eve", "groups": []})


class AgentIdentityTests(IdentityTests):
    """A session of an agent of ada's on db1: everything of a person's holds of it too."""

    whose = agent = f"agent-{ADA}"
    gone = "revoked_agent"

    def setUp(self) -> None:
        super().setUp()
        house = self.house
        acting = ACTING.replace(f'principal == User::"{ADA}"', "principal is Agent")
        opens = """
@id("agents-open")
permit (principal is Agent, action == Action::"tcpConnect", resource is TcpService);
"""
        house.run(lambda tx: self.add(tx, POLICY + acting + opens))
        house.refresh()
        self.holder = house.holder(Role.AGENT, self.agent)
        issued = AgentCertificate(
            sha256=self.holder.sha256,
            serial="1",
            agent_id=self.agent,
            key_sha256=b"k" * 32,
            generation=1,
            issued_at=1.0,
            expires=9e9,
        )
        house.run(lambda tx: tx.agent_certificates.issued(issued))
        house.refresh()
        self.ask = house.ask(self.holder)
        answer = value_of(self.issuance.authorize(self.ask, house.row(house.proxy)))
        self.grant = answer.grant
        self.uid = decode_request(self.ask.request).session_uid

    def add(self, tx: Any, policy: str) -> None:
        """An agent that may act for bob and, longer than that, for carl."""
        tx.policies.activate(tx.policies.add(policy, "test", 3.0).version, 3.0)
        tx.agents.add(Agent(self.agent, "deployer", ADA))
        now = self.house.now()
        for id, person, actions, ends in (
            ("d1", BOB, ("tcpConnect",), now + 50),
            ("d2", CARL, ("tcpConnect",), now + 5000),
            ("d3", EVE, ("tcpConnect",), now + 5000),
            ("d4", ADA, ("sshConnect",), now + 5000),
        ):
            tx.delegations.add(
                Delegation(
                    id=id,
                    agent_id=self.agent,
                    person_id=person,
                    actions=actions,
                    added_at=now,
                    expires_at=ends,
                )
            )

    def test_claims(self) -> None:
        """They are the agent's, in no group."""
        said = self.told()
        self.assertEqual((said["sub"], said["name"]), (self.agent, "deployer"))
        self.assertNotIn("groups", {name for name, value in said.items() if value})

    @proves("X-54")
    def test_acting(self) -> None:
        """It needs a delegation that lasts and covers the action, and both permits besides."""
        said = self.told("bob")
        self.assertEqual((said["sub"], said["act"]["sub"]), (self.agent, BOB))
        (record,) = self.records("credential.issue")
        self.assertEqual(record["actor"], {"kind": "agent", "id": self.agent})
        self.assertEqual(record["details"]["acts_as"], BOB)
        for name, lacking in (
            ("carl", "the permit to name that one"),
            ("eve", "the permit of the one who is named"),
            ("ada", "a delegation of this action"),
        ):
            with self.subTest(lacking):
                self.assertEqual(self.refused(name), "identity_denied")
        self.house.by_sql("UPDATE delegations SET actions = 'sshConnect tcpConnect'")
        self.assertEqual(self.refused("ada"), "identity_denied")
        self.assertEqual(self.refused("bob"), "identity_denied")
        self.house.by_sql("UPDATE delegations SET actions = 'tcpConnect' WHERE id = 'd1'")
        self.told("bob")
        self.house.clock.advance(51)
        self.house.by_sql("UPDATE delegations SET expires_at = expires_at + 500")
        self.assertEqual(self.refused("bob"), "identity_denied")
