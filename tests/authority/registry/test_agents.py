"""Agents: added, let in, acting for somebody, and gone with their owner."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from attrs import evolve, frozen
from twisted.internet.error import ConnectionRefusedError
from twisted.trial.unittest import SynchronousTestCase

from svc.authority.policy.publish import revocations_of
from svc.authority.state.recorder import operator
from svc.errors import Denied, Fault
from svc.model.cluster.agent import AgentState
from svc.model.ids import is_agent_id
from svc.model.principal import parse_principal
from svc.model.signing import PrivateKey
from svc.pki.enroll import CertificateIssuer
from svc.pki.issue import make_request
from svc.pki.root import new_key
from svc.proto.gate.v1 import admin_pb2 as pb
from svc.proto.gate.v1 import bootstrap_pb2
from tests.authority.house import ADA, EVE, POLICY, Call, Holder, House, refusal_of, value_of
from tests.authority.signin.memory import WELL_KNOWN, SignInHouse
from tests.authority.signin.tokens import ISSUER, signed
from tests.pki.support import CLUSTER
from tests.support.nothing import nothing
from tests.support.proof import proves

ROOT = operator(0)
AGENTS = (
    POLICY
    + f"""
@id("adas-agents")
permit (principal is Agent, action in [Action::"tcpConnect", Action::"view"],
        resource is TcpService)
when {{ principal.owner == "{ADA}" }};
"""
)
TABLES = ("agents", "agent_certificates", "delegations")


@frozen
class Joined:
    """An agent that joined."""

    id: str
    key: PrivateKey
    chain: tuple[bytes, ...]

    @property
    def holder(self) -> Holder:
        """For the house's requests."""
        return Holder(
            id=self.id, key=self.key, chain=self.chain, sha256=sha256(self.chain[0]).digest()
        )


class AgentCase(SynchronousTestCase):
    """A house with one agent of ada's."""

    def setUp(self) -> None:
        self.at = SignInHouse()
        self.house: House = self.at.house
        self.house.run(
            lambda tx: tx.policies.activate(tx.policies.add(AGENTS, "test", 2.0).version, 2.0)
        )
        self.house.refresh()
        self.house.serve("db1")
        self.registry = self.house.registry()
        self.agents = self.registry.agents
        self.issuer = CertificateIssuer(self.house.world.keys, person_lifetime=3600.0)

    def add(self, name: str = "deployer", owner: str = "ada", **more: Any) -> Any:
        """Add an agent, as an operator."""
        request = pb.AddAgentRequest(name=name, owner=owner, **more)
        answer = value_of(self.agents.add_agent(request, ROOT))
        self.house.refresh()
        return answer

    def enrolling(self, token: str, key: Any) -> Any:
        """Join with a token."""
        request = bootstrap_pb2.EnrollRequest(token=token, csr=make_request(key))
        return self.house.enrollment(self.issuer)._enroll(request, Call())

    def join(self, token: str) -> Joined:
        """Join with a token that is good."""
        key = new_key()
        answer = value_of(self.enrolling(token, key))
        principal = parse_principal(answer.principal)
        self.house.refresh()
        return Joined(principal.id, key, tuple(answer.chain))

    def authorize(self, agent: Joined, **asked: Any) -> Any:
        """Ask for a session on db1."""
        ask = evolve(self.house.ask(agent.holder), **asked)
        row = self.house.row(self.house.proxy)
        return self.house.issuance().authorize(ask, row)

    def renewing(self, agent: Joined, key: Any) -> Any:
        """Renew by a certificate."""
        return self.at.renew(agent.key, agent.chain, key)

    def listed(self, route: str = "") -> list[Any]:
        """What the command shows."""
        answer = value_of(self.agents.list_agents(pb.ListAgentsRequest(route=route), ROOT))
        return list(answer.agents)


class AgentTests(AgentCase):
    """From the operator's word to the session."""

    def test_joins_and_opens(self) -> None:
        """It joins once by its token, and opens what policy permits to it and not to its owner."""
        added = self.add()
        agent = self.join(added.token)
        self.assertEqual(agent.id, added.id)
        self.assertTrue(is_agent_id(agent.id))
        self.assertEqual(refusal_of(self.enrolling(added.token, new_key())).reason, "token_refused")
        answer = value_of(self.authorize(agent))
        self.assertIsNotNone(answer.grant)
        (start,) = self.house.records("session.start")
        self.assertEqual(start["actor"], {"kind": "agent", "id": agent.id})
        self.assertEqual(start["request"]["principal"], {"id": agent.id, "type": "Agent"})
        self.assertEqual(start["policies"], ["adas-agents"])
        (enrolled,) = self.house.records("agent.enroll")
        self.assertEqual(enrolled["details"]["person_id"], ADA)

    def test_of_another_owner(self) -> None:
        """An agent is in none of its owner's groups, and what is said of one owner is of that."""
        agent = self.join(self.add(owner="eve").token)
        answer = value_of(self.authorize(agent))
        self.assertEqual((answer.grant, answer.reason), (None, "denied"))

    def test_owner_disabled(self) -> None:
        """Whose owner is disabled is refused with that reason, until the owner is enabled."""
        agent = self.join(self.add().token)
        request = pb.ChangePersonRequest(person="ada")
        value_of(self.registry.people.disable(request, ROOT))
        self.house.refresh()
        self.assertEqual(refusal_of(self.authorize(agent)).reason, "disabled_owner")
        self.assertEqual(refusal_of(self.renewing(agent, new_key())).reason, "disabled_owner")
        self.assertEqual(self.revocation(agent), "disabled_owner")
        self.assertEqual([row.state for row in self.listed()], ["disabled"])
        value_of(self.registry.people.enable(request, ROOT))
        self.house.refresh()
        self.assertIsNotNone(value_of(self.authorize(agent)).grant)
        self.assertEqual(self.revocation(agent), "")

    def revocation(self, agent: Joined) -> str:
        """Why Proxies refuse it; empty: they do not."""
        found = revocations_of(self.house.state_cache.state, CLUSTER)
        return "".join(one.reason for one in found if one.principal.endswith(agent.id))

    def test_owner_removed(self) -> None:
        """With its owner it goes for good, with its tokens and delegations."""
        agent = self.join(self.add(persons=["eve"], actions=["tcpConnect"]).token)
        waiting = self.add()
        value_of(self.registry.people.remove(pb.ChangePersonRequest(person="ada"), ROOT))
        self.house.refresh()
        self.assertEqual(refusal_of(self.authorize(agent)).reason, "revoked_agent")
        self.assertEqual(
            refusal_of(self.enrolling(waiting.token, new_key())).reason, "token_refused"
        )
        self.assertEqual(self.revocation(agent), "revoked")
        (row,) = self.listed()
        self.assertEqual((row.state, list(row.delegations)), ("revoked", []))

    def test_revoked(self) -> None:
        """A revoked agent opens nothing, renews nothing, and its name stays taken."""
        agent = self.join(self.add().token)
        request = pb.RevokeAgentRequest(agent="deployer", note="compromised")
        answer = value_of(self.agents.revoke_agent(request, ROOT))
        self.assertEqual((answer.id, answer.changed), (agent.id, True))
        self.house.refresh()
        self.assertFalse(value_of(self.agents.revoke_agent(request, ROOT)).changed)
        self.assertEqual(refusal_of(self.authorize(agent)).reason, "revoked_agent")
        self.assertEqual(refusal_of(self.renewing(agent, new_key())).reason, "revoked_agent")
        again = pb.AddAgentRequest(name="deployer", owner="ada")
        self.assertEqual(refusal_of(self.agents.add_agent(again, ROOT)).reason, "already_exists")
        unknown = pb.RevokeAgentRequest(agent="nobody")
        refused = refusal_of(self.agents.revoke_agent(unknown, ROOT))
        self.assertEqual(refused.reason, "unknown_agent")

    def test_refused(self) -> None:
        """What an agent cannot be added with."""
        far = 366 * 86400 + 1
        bad: tuple[tuple[dict[str, Any], str], ...] = (
            ({"owner": "nobody"}, "unknown_person"),
            ({"name": ADA}, "malformed"),
            ({"name": f"agent-{ADA}"}, "malformed"),
            ({"name": "ada"}, "already_exists"),
            ({"actions": ["tcpConnect"]}, "malformed"),
            ({"persons": ["eve"], "actions": ["view"]}, "malformed"),
            ({"persons": ["nobody"]}, "unknown_person"),
            ({"persons": ["eve"], "delegation_secs": far}, "malformed"),
            ({"audience": "svc"}, "malformed"),
            ({"issuer": "https://ci.example", "claims": {"ref": "main"}}, "malformed"),
            ({"issuer": "http://ci.example", "claims": {"sub": "r"}}, "malformed"),
        )
        for fields, reason in bad:
            request = pb.AddAgentRequest(**{"name": "deployer", "owner": "ada", **fields})
            refused = refusal_of(self.agents.add_agent(request, ROOT))
            self.assertEqual(refused.reason, reason, fields)
        self.assertEqual(self.listed(), [])

    def test_renewed(self) -> None:
        """It renews by its certificate alone; who renews from a copy ends it for both."""
        agent = self.join(self.add().token)
        key = new_key()
        answer = value_of(self.renewing(agent, key))
        self.assertGreater(answer.renew_until, self.house.now())
        value_of(self.renewing(agent, key))
        newer = Joined(agent.id, key, tuple(answer.chain))
        self.assertIsNotNone(value_of(self.authorize(newer)).grant)
        self.assertEqual(refusal_of(self.renewing(agent, new_key())).reason, "identity_cloned")
        self.house.refresh()
        self.assertEqual(refusal_of(self.authorize(newer)).reason, "revoked_agent")
        (record,) = self.house.records("agent.revoke")
        self.assertEqual(record["reason"], "identity_cloned")

    @proves("G-CLI-16", "G-OPEN-66", "U-NOTE-32")
    def test_seen(self) -> None:
        """A Proxy of before tells no time, so none is known; by certificate it is."""
        agent = self.join(self.add().token)
        self.add("other")
        self.assertEqual([row.seen for row in self.listed()], [0, 0])
        value_of(self.authorize(agent))  # As a Proxy of before brings it.
        self.assertEqual([row.seen for row in self.listed()], [0, 0])
        (row,) = self.listed("certificate")
        self.assertEqual((row.name, row.seen), ("deployer", int(self.house.now())))
        self.house.clock.advance(5)
        value_of(self.authorize(agent, seen_at_ms=1))
        self.assertEqual([row.seen for row in self.listed()], [int(self.house.now()), 0])
        (row,) = self.listed("certificate")
        self.assertEqual(row.seen, int(self.house.now()) - 5)
        request = pb.ListAgentsRequest(route="forwarded")
        self.assertEqual(refusal_of(self.agents.list_agents(request, ROOT)).reason, "malformed")


class AssertionTests(AgentCase):
    """An agent that enrolls by ID tokens of its platform."""

    def setUp(self) -> None:
        super().setUp()
        # A platform is no provider for people: it offers no PKCE, nor a place to sign in.
        platform = {"issuer": ISSUER, "jwks_uri": f"{ISSUER}/jwks"}
        platform |= {"id_token_signing_alg_values_supported": ["RS256"]}  # type: ignore[dict-item]
        self.at.agent.answer(WELL_KNOWN, platform)
        claims = {"sub": "repo:a", "ref": "main"}
        self.add(issuer=ISSUER, audience="svc-agents", claims=claims)

    def token(self, **claims: Any) -> str:
        """A token that is good, but for what is changed."""
        own = {"aud": "svc-agents", "sub": "repo:a", "ref": "main"}
        return signed({"alg": "RS256", "kid": "r1"}, self.at.claims(**{**own, **claims}))

    def test_enrolls(self) -> None:
        """Its certificate is as by a token; no person is made, and no flow need be allowed."""
        self.at.service.entrance.rules = evolve(self.at.entrance.rules, flows=frozenset())
        answer = value_of(self.at.assertion(self.token()))
        (row,) = self.listed()
        self.assertEqual(parse_principal(answer.principal).id, row.id)
        self.assertEqual((answer.name, row.issuer), ("deployer", ISSUER))
        (record,) = self.house.records("agent.enroll")
        self.assertEqual(record["details"]["issuer"], ISSUER)
        self.assertEqual(self.house.records("person.add"), [])
        value_of(self.at.assertion(self.token(jti="2")))
        self.assertEqual(self.house.records("agent.enroll")[1]["details"]["generation"], 2)

    def test_refused(self) -> None:
        """Another audience or claim, a token used before, an agent that is gone."""
        token = self.token()
        value_of(self.at.assertion(token))
        for refused, reason in (
            (token, "assertion_replayed"),
            (self.token(aud=CLUSTER), "id_token_audience"),
            (self.token(aud=["svc-agents", CLUSTER]), "id_token_audience"),
            (self.token(nonce="n" * 43), "id_token_nonce"),
            (self.token(exp=self.house.now() - 100), "id_token_expired"),
            (self.token()[:-8] + "AAAAAAAA", "id_token_signature"),
        ):
            self.assertEqual(refusal_of(self.at.assertion(refused)).reason, reason)
        reasons = [one["reason"] for one in self.house.records("sign_in.refused")]
        self.assertEqual(len(reasons), 6)
        value_of(self.agents.revoke_agent(pb.RevokeAgentRequest(agent="deployer"), ROOT))
        self.house.refresh()
        gone = refusal_of(self.at.assertion(self.token(jti="3")))
        self.assertEqual(gone.reason, "revoked_agent")
        self.assertEqual(self.house.records("person.add"), [])

    def test_a_token_enrolls_once(self) -> None:
        """Whatever a later request with it fails by, a token that was used is used up."""
        token, csr = self.token(exp=self.house.now() + 80_000), make_request(new_key())
        value_of(self.at.assertion(token, csr))
        self.house.clock.advance(3700)  # the keys of the platform are fetched anew
        self.at.agent.breaks = ConnectionRefusedError()
        self.assertEqual(refusal_of(self.at.assertion(token, csr)).fault, Fault.UNAVAILABLE)
        self.at.agent.breaks = None
        self.house.clock.advance(10)
        self.assertEqual(refusal_of(self.at.assertion(token, csr)).reason, "assertion_replayed")
        self.assertEqual(len(self.house.records("agent.enroll")), 1)

    def test_the_answer_of_the_commit_is_lost(self) -> None:
        """The same key is given the certificate that was issued, while the agent is in force."""
        self.house.store.mood = "commits, then down"
        token, csr = self.token(), make_request(new_key())
        for _ in range(2):
            self.assertEqual(refusal_of(self.at.assertion(token, csr)).fault, Fault.UNAVAILABLE)
        self.house.store.mood = "well"
        answer = value_of(self.at.assertion(token, csr))
        (record,) = self.house.records("agent.enroll")
        issued = sha256(answer.chain[0]).hexdigest()
        self.assertEqual(record["details"]["certificate_sha256"], issued)
        self.assertEqual(refusal_of(self.at.assertion(token, csr)).reason, "assertion_replayed")

    def test_revoked_after_a_lost_answer(self) -> None:
        """An agent that was revoked since gets nothing for its token, and becomes no person."""
        self.house.store.mood = "commits, then down"
        token, csr = self.token(), make_request(new_key())
        refusal_of(self.at.assertion(token, csr))
        self.house.store.mood = "well"
        value_of(self.agents.revoke_agent(pb.RevokeAgentRequest(agent="deployer"), ROOT))
        self.house.refresh()
        self.assertEqual(refusal_of(self.at.assertion(token, csr)).reason, "revoked_agent")
        self.assertEqual(self.house.records("person.add"), [])

    def test_unsigned_tokens_tell_nothing(self) -> None:
        """By a token of one's own making one learns no agent's claims, audience or standing (R16).

        Each is refused alike, and each refusal is recorded.
        """
        tries: tuple[dict[str, Any], ...] = (
            {},
            {"sub": "repo:b"},
            {"ref": "other"},
            {"aud": CLUSTER},
            {"exp": self.house.now() - 100},
            {"nonce": "n" * 43},
        )
        told = set()
        for claims in tries:
            refusal = refusal_of(self.at.assertion(self.token(**claims)[:-8] + "AAAAAAAA"))
            told.add((refusal.reason, refusal.text))
        self.assertEqual([reason for reason, _ in told], ["id_token_signature"])
        value_of(self.agents.revoke_agent(pb.RevokeAgentRequest(agent="deployer"), ROOT))
        self.house.refresh()
        refusal = refusal_of(self.at.assertion(self.token()[:-8] + "AAAAAAAA"))
        self.assertIn((refusal.reason, refusal.text), told)
        records = self.house.records("sign_in.refused")
        self.assertEqual(len(records), len(tries) + 1)

    def test_which_agent(self) -> None:
        """The exact claims say which one; where they say two, it is neither."""
        claims = {"sub": "repo:a"}
        other = f"{ISSUER}.other"
        self.add("wider", issuer=ISSUER, audience="svc-agents", claims=claims)
        refused = refusal_of(self.at.assertion(self.token()))
        self.assertEqual(refused.reason, "assertion_agent")
        answer = value_of(self.at.assertion(self.token(ref="other")))
        self.assertEqual(answer.name, "wider")
        self.add("elsewhere", issuer=other, claims=claims)
        platform = {"issuer": other, "jwks_uri": f"{other}/jwks"}
        platform |= {"id_token_signing_alg_values_supported": ["RS256"]}  # type: ignore[dict-item]
        self.at.agent.answer(WELL_KNOWN, platform)
        refused = refusal_of(self.at.assertion(self.token(iss=other, sub="repo:b")))
        self.assertEqual(refused.reason, "assertion_agent")
        reasons = [one["reason"] for one in self.house.records("sign_in.refused")]
        self.assertEqual(reasons, ["assertion_agent"] * 2)

    def test_by_sql(self) -> None:
        """Claims that are changed in the table make nobody this agent."""
        self.house.by_sql('UPDATE agents SET claims = \'{"sub": "repo:b"}\'')
        refused = refusal_of(self.at.assertion(self.token(sub="repo:a")))
        self.assertEqual(refused.reason, "state_unsigned")


class SqlTests(AgentCase):
    """Whoever changes the tables gives nobody anything."""

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """As they stand."""
        found: list[tuple[Any, ...]] = []

        def look(tx: Any) -> None:
            found.extend(tx.state._db.all(f"SELECT * FROM {table}"))

        value_of(self.house.store.store.read("sql", look))
        return found

    def put_back(self, kept: dict[str, list[tuple[Any, ...]]]) -> None:
        """Make the tables what they were."""

        def put(tx: Any) -> None:
            for table in reversed(TABLES):
                tx.state._db.change(f"DELETE FROM {table}")
            for table in TABLES:
                for row in kept[table]:
                    marks = ", ".join("?" * len(row))
                    tx.state._db.change(f"INSERT INTO {table} VALUES ({marks})", *row)

        value_of(self.house.store.store.run("sql", put))
        self.house.refresh()

    def test_put_back(self) -> None:
        """A revoked agent whose rows are put back as they were before stays revoked."""
        agent = self.join(self.add(persons=["eve"], actions=["tcpConnect"]).token)
        kept = {table: self.rows(table) for table in TABLES}
        request = pb.RevokeAgentRequest(agent=agent.id)
        value_of(self.agents.revoke_agent(request, ROOT))
        self.put_back(kept)
        self.assertIn(refusal_of(self.authorize(agent)).reason, ("state_unsigned", "revoked_agent"))
        found: list[Any] = []

        def look(tx: Any) -> None:
            rows = self.house.recorder.rows(tx)
            for one in tx.delegations.unexpired(self.house.now()):
                try:
                    found.append(rows.delegation(one.id))
                except Denied as refused:
                    found.append(refused.reason)

        value_of(self.house.store.store.read("look", look))
        self.assertEqual(found, ["state_unsigned"])

    def test_deleted(self) -> None:
        """An agent whose rows were deleted or altered before it was revoked is revoked for good."""
        for statements in (
            [f"DELETE FROM {table}" for table in reversed(TABLES)],
            [f"UPDATE agents SET owner = '{EVE}'"],
        ):
            with self.subTest(statements[-1]):
                self.setUp()
                agent = self.join(self.add().token)
                kept = {table: self.rows(table) for table in TABLES}
                self.house.by_sql(*statements)
                request = pb.RevokeAgentRequest(agent=agent.id)
                self.assertTrue(value_of(self.agents.revoke_agent(request, ROOT)).changed)
                self.put_back(kept)
                refused = refusal_of(self.authorize(agent)).reason
                self.assertIn(refused, ("state_unsigned", "revoked_agent"))

    def test_altered(self) -> None:
        """An owner changed, an agent or a certificate added, a revocation undone: no effect."""
        agent = self.join(self.add(owner="eve").token)
        self.house.by_sql(f"UPDATE agents SET owner = '{ADA}'")
        self.house.refresh()
        self.assertEqual(refusal_of(self.authorize(agent)).reason, "state_unsigned")
        self.assertEqual(refusal_of(self.renewing(agent, new_key())).reason, "state_unsigned")
        self.house.by_sql(f"UPDATE agents SET owner = '{EVE}'")
        self.house.refresh()
        self.house.by_sql("UPDATE agent_certificates SET generation = 7")
        self.assertEqual(refusal_of(self.authorize(agent)).reason, "state_unsigned")
        self.house.by_sql("UPDATE agent_certificates SET generation = 1")
        value_of(self.agents.revoke_agent(pb.RevokeAgentRequest(agent=agent.id), ROOT))
        self.house.by_sql("UPDATE agents SET state = 'active', revoked_at = NULL")
        self.house.refresh()
        self.assertIn(refusal_of(self.authorize(agent)).reason, ("state_unsigned", "revoked_agent"))
        self.house.by_sql(
            "INSERT INTO agents VALUES"
            f" ('agent-{ADA}', 'forged', '{ADA}', 'active', '', '', '', 1.0, NULL, NULL)"
        )
        self.house.refresh()
        self.assertNotIn(f"agent-{ADA}", self.house.state_cache.state.agents)
        self.assertEqual(self.house.state_cache.state.agents[agent.id].state, AgentState.REVOKED)

    def test_newest_hidden(self) -> None:
        """While the newest certificate's row is missing or altered, no copy of an older renews."""
        other = self.join(self.add("other").token)
        agent = self.join(self.add().token)
        key = new_key()
        value_of(self.renewing(agent, key))
        kept = {table: self.rows(table) for table in TABLES}
        newest = f"agent_id = '{agent.id}' AND generation = 2"
        for change in (
            f"DELETE FROM agent_certificates WHERE {newest}",
            f"UPDATE agent_certificates SET generation = 1 WHERE {newest}",
            f"UPDATE agent_certificates SET expires = 1 WHERE {newest}",
            f"UPDATE agent_certificates SET agent_id = '{other.id}' WHERE {newest}",
        ):
            self.house.by_sql(change)
            refused = refusal_of(self.renewing(agent, new_key()))
            self.assertEqual(refused.reason, "state_unsigned", change)
            self.assertIn("svc authority status", refused.text)
            (*_, record) = self.house.records("renew.refused")
            self.assertEqual(record["reason"], "state_unsigned")
            self.assertEqual(record["actor"], {"kind": "agent", "id": agent.id})
            self.assertEqual(record["details"]["generation"], 1)
            value_of(self.renewing(other, new_key()))
            self.put_back(kept)
            # That renewal's own row went with the others: sign for the tables as they are.
            self.house.run(nothing)
        self.assertEqual(len(self.house.records("renew.refused")), 4)
        self.assertEqual(refusal_of(self.renewing(agent, new_key())).reason, "identity_cloned")

    def test_many_ask_about_a_hidden_row(self) -> None:
        """What records say of a row that is missing is read once, and not by each renewal."""
        other = self.join(self.add("other").token)
        agent = self.join(self.add().token)
        self.house.by_sql(f"DELETE FROM agent_certificates WHERE agent_id = '{other.id}'")
        value_of(self.renewing(agent, new_key()))
        told = self.house.recorder.ledger.told
        self.assertEqual([said["agent_id"] for said in told.values()], [other.id])
        said = next(iter(told.values()))
        again = self.join(self.add("third").token)
        value_of(self.renewing(again, new_key()))
        self.assertIs(next(iter(told.values())), said)
        self.assertEqual(refusal_of(self.renewing(other, new_key())).reason, "state_unsigned")

    def test_forged_certificate(self) -> None:
        """A certificate of the cluster's own CA that no record names opens nothing."""
        agent = self.join(self.add().token)
        self.house.by_sql("DELETE FROM agent_certificates")
        self.assertEqual(refusal_of(self.authorize(agent)).reason, "state_unsigned")
