"""``svc why``: told to the decision's own person, and to nobody else."""

from __future__ import annotations

from itertools import count
from typing import Any

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from svc.authority.policy.past_reasons import MOST_REMEMBERED
from svc.authority.sessions.explain import ON_REQUEST, Explainer
from svc.errors import SvcError
from svc.messages.session import Explanation, encode_why_request, explanation_message
from svc.model.session.request import WhyRequest
from svc.model.signing import Purpose, sign
from tests.authority.house import ADA, KINDS, POLICY, Holder, House, refusal_of, value_of
from tests.authority.spools import Leader, Origin
from tests.pki.support import CLUSTER

RANDOM = "0f" * 16


class ExplainTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.begin(POLICY)

    def begin(self, policy: str) -> None:
        self.house = house = House(policy)
        self.explainer = Explainer(
            cluster=CLUSTER,
            state_cache=house.state_cache,
            engine=lambda: house.policy.engine,
            kinds=KINDS,
            store=house.store,
            verifier=house.world.verifier,
            now=house.now,
            reasons=house.reasons(),
        )
        self.proxy = house.row(house.proxy)

    def denied(self, who: Holder, name: str, said: str = "allow") -> str:
        ask = self.house.ask(who, name, said)
        answer = value_of(self.house.issuance().authorize(ask, self.proxy))
        return str(answer.decision_id)

    def asked(self, who: Holder, decision_id: str, **fields: Any) -> Any:
        request = WhyRequest(
            cluster=CLUSTER,
            decision_id=decision_id,
            proxy_id=self.proxy.id,
            issued_at_ms=int(self.house.now() * 1000),
            certificate_sha256=who.sha256,
        )
        data = encode_why_request(evolve(request, **fields))
        signature = sign(who.key, Purpose.WHY_REQUEST, data)
        return self.explainer.explain(data, signature, who.chain, self.proxy)

    def why(self, who: Holder, decision_id: str) -> Explanation:
        said = value_of(self.asked(who, decision_id))
        assert isinstance(said, Explanation)
        return said

    def refused(self, who: Holder, **fields: Any) -> str:
        error: SvcError = refusal_of(self.asked(who, RANDOM, **fields))
        return error.reason

    def test_own_decision(self) -> None:
        """The person of a decision is told what it was and by which policy."""
        said = self.why(self.house.ada, self.denied(self.house.ada, "prod1"))
        self.assertEqual((said.explained, said.decision), (True, "deny"))
        self.assertEqual((said.policies, said.resource), (("nobody-production",), "prod1"))

    def test_each_reason_has_words(self) -> None:
        """It is told what happened and what to do, and a policy is named only where one decided."""
        ada, seen = self.house.ada, dict[str, Explanation]()

        def see(decision: str) -> None:
            told = self.why(ada, decision)
            seen[told.reason] = told

        see(self.denied(ada, "prod1"))
        see(self.denied(ada, "db1", "deny"))
        see(self.denied(ada, "db1"))
        self.house.run(lambda tx: tx.catalog.registered(self.house.connector.id, ["db1"], [], 5.0))
        self.house.refresh()
        see(self.denied(ada, "db1"))
        self.assertEqual(set(seen), {"denied", "proxy_denied", "unknown", "departed"})
        for reason, told in seen.items():
            self.assertTrue(told.explained and told.reason_text and told.hint, reason)
            self.assertEqual(bool(told.policies), reason == "denied", reason)
            self.assertEqual("policy forbids" in told.reason_text, reason == "denied", reason)
            if reason in ("unknown", "departed"):
                self.assertEqual(told.decision, "not_served")
                self.assertIn("svc --config FILE authority resources list", told.hint)

    def test_what_could_be_asked_for(self) -> None:
        """A denial that an approved request would turn tells what its permit says of that."""
        for mark, said in (('@reason("ask the lead")', "ask the lead"), ("", ON_REQUEST)):
            text = f"""{POLICY}
@id("db1-on-request") @requestable {mark}
permit (principal, action == Action::"tcpConnect", resource == TcpService::"db1")
when {{ context has approved_request }};
@id("everybody-sees-db1")
permit (principal, action == Action::"view", resource == TcpService::"db1");
"""
            self.begin(text)
            eve, ada = self.house.eve, self.house.ada
            denied = self.why(eve, self.denied(eve, "db1", "deny"))
            self.assertEqual((denied.decision, denied.policies), ("deny", ()))
            self.assertEqual(dict(denied.why), {"db1-on-request": said})
            self.assertEqual(denied.request_hint, "svc request db1 --action tcpConnect")
            # An approval turns no forbid.
            forbidden = self.why(ada, self.denied(ada, "prod1"))
            self.assertNotIn("db1-on-request", forbidden.why)
            self.assertEqual(forbidden.request_hint, "")

    def replaced(self, policy: str) -> None:
        """Another policy is in force from now on."""
        self.house.run(
            lambda tx: tx.policies.activate(tx.policies.add(policy, "test", 2.0).version, 2.0)
        )
        self.house.refresh()

    def test_in_the_words_of_then(self) -> None:
        """A policy is told as the version that decided has it, whatever its name says today."""
        marked = '@id("nobody-production") @reason("{}")'
        texts = [
            POLICY.replace('@id("nobody-production")', marked.format(f"words {n}"))
            for n in range(MOST_REMEMBERED + 3)
        ]
        self.begin(texts[0])
        ada, decisions = self.house.ada, []
        for text in texts[1:]:
            decisions.append(self.denied(self.house.ada, "prod1"))
            self.replaced(text)
        decisions.append(self.denied(ada, "prod1"))
        for _ in range(2):
            for number, decision in enumerate(decisions):
                said = self.why(ada, decision)
                self.assertEqual(said.policy_version, number + 1)
                self.assertEqual(dict(said.why), {"nobody-production": f"words {number}"})
        self.assertEqual(len(self.explainer.reasons._remembered), MOST_REMEMBERED)

    def test_words_that_were_altered(self) -> None:
        """An older text is quoted only while it is the one that was signed for."""
        self.begin(
            POLICY.replace('@id("nobody-production")', '@id("nobody-production") @reason("x")')
        )
        decision = self.denied(self.house.ada, "prod1")
        self.replaced(POLICY)
        altered = (
            "UPDATE policy_versions SET text = replace(text, '\"{}\"', '\"{}\"') WHERE version = 1"
        )
        for was, now, why in (("x", "y", {}), ("y", "x", {"nobody-production": "x"})):
            self.house.by_sql(altered.format(was, now))
            said = self.why(self.house.ada, decision)
            self.assertEqual((said.policies, dict(said.why)), (("nobody-production",), why))

    def test_how_to_ask_today(self) -> None:
        """How to ask follows from the policy in force: also once it is allowed, or first can be."""
        view = '@id("sees") permit (principal, action == Action::"view", resource);'
        opens = 'permit (principal, action == Action::"tcpConnect", resource == TcpService::"db1")'
        wanted = "svc request db1 --action tcpConnect"
        self.begin(POLICY + view)
        eve = self.house.eve
        decision = self.denied(eve, "db1", "deny")
        self.assertEqual(self.why(eve, decision).request_hint, "")
        asked = f'@id("asks") @requestable {opens} when {{ context has approved_request }};'
        self.replaced(POLICY + view + asked)
        said = self.why(eve, decision)
        self.assertEqual((said.request_hint, dict(said.why)), (wanted, {"asks": ON_REQUEST}))
        self.replaced(f'{POLICY}{view}{asked}@id("all") {opens};')
        said = self.why(eve, decision)
        self.assertEqual((said.request_hint, dict(said.why)), ("", {}))

    def test_an_exact_approval(self) -> None:
        """A denied request tells also of a permit that wants an approval of its exact text."""
        self.begin(
            """
@id("db1-exactly") @requestable @reason("ask the owner")
permit (principal, action == Action::"tcpConnect", resource == TcpService::"db1")
when {
  context has approved_request && context.approved_request has exact &&
  context has proxy_reported && context.proxy_reported has source_address &&
  context.proxy_reported.source_address == ip("192.0.2.7")
};
@id("everybody-sees-db1")
permit (principal, action == Action::"view", resource == TcpService::"db1");
"""
        )
        origin, leader, ada = Origin(self.house, "edge7"), Leader(self.house), self.house.ada
        request = origin.request(origin.session(), decision="deny", policies=())
        leader.inject(origin.first, origin.batch(request))
        leader.drain()
        said = self.why(ada, request.decision_id)
        self.assertEqual(dict(said.why), {"db1-exactly": "ask the owner"})
        self.assertEqual(said.request_hint, f"svc request --decision {request.decision_id}")
        # No such approval opens a session.
        self.assertEqual(dict(self.why(ada, self.denied(ada, "db1", "deny")).why), {})

    def test_a_request(self) -> None:
        """A request inside a session is explained to the person whose session it was."""
        origin, leader = Origin(self.house, "edge7"), Leader(self.house)
        numbers = origin.session()
        requests = [origin.request(numbers, decision=one) for one in ("allow", "deny")]
        leader.inject(origin.first, origin.batch(*requests))
        leader.drain()
        said = self.why(self.house.ada, requests[1].decision_id)
        self.assertEqual((said.explained, said.decision, said.resource), (True, "deny", "db1"))
        self.assertEqual((said.action, said.policies), ("tcpConnect", ("dev-uses-tcp",)))
        self.assertFalse(self.why(self.house.eve, requests[1].decision_id).explained)

    def test_a_beginning(self) -> None:
        """The beginning of an id is enough, where no other decision of the same person has it."""
        ada, eve = self.house.ada, self.house.eve
        decision = self.denied(ada, "prod1")
        said = self.why(ada, decision[:8])
        self.assertEqual((said.explained, said.decision_id), (True, decision))
        for word in (decision[:7], decision[:8] + "g", f"{int(decision[:8], 16) ^ 1:08x}"):
            self.assertFalse(self.why(ada, word).explained, word)
        told = explanation_message(evolve(self.why(eve, decision[:8]), decision_id="-"))
        unknown = explanation_message(evolve(self.why(eve, RANDOM), decision_id="-"))
        self.assertEqual(told, unknown)

    def test_a_session(self) -> None:
        """A session stands for the decision that let it open; another's stands for nothing."""
        ada, eve = self.house.ada, self.house.eve
        self.house.serve("db1")
        ask = self.house.ask(ada, "db1")
        decision = str(value_of(self.house.issuance().authorize(ask, self.proxy)).decision_id)
        uid = self.house.run(lambda tx: tx.sessions.open())[0].uid
        for word in (uid, uid[:8], decision):
            said = self.why(ada, word)
            self.assertEqual(
                (said.explained, said.decision_id, said.decision), (True, decision, "allow")
            )
            told = explanation_message(evolve(self.why(eve, word), decision_id="-"))
            self.assertEqual(told, explanation_message(Explanation("-")))
            self.assertEqual(self.why(eve, word).decision_id, word)

    def test_a_beginning_of_several(self) -> None:
        """Two of their own are named; another's with the same beginning does not count."""
        ada, eve = self.house.ada, self.house.eve
        drawn = (b"\xaa" * 8 + n.to_bytes(2, "big") + bytes(6) for n in count())
        self.patch(self.house, "entropy", lambda size: next(drawn)[:size])
        begins = "aa" * 8
        first = self.denied(ada, "prod1")
        self.assertEqual(first[:16], begins)
        self.denied(eve, "db1")
        self.assertEqual(self.why(ada, begins).decision_id, first)
        second = self.denied(ada, "prod1")
        error = refusal_of(self.asked(ada, begins))
        self.assertEqual(error.reason, "ambiguous_id")
        for word in (first, second, "type more digits"):
            self.assertIn(word, error.text)
        self.assertEqual(self.why(ada, second[:20]).decision_id, second)
        self.house.run(lambda tx: tx.people.set_groups(ADA, []))
        self.house.refresh()
        self.assertEqual(self.why(ada, begins), Explanation(begins))

    def test_a_beginning_of_too_many(self) -> None:
        """What is not looked through is answered like what is not there: it tells of others."""
        ada, eve = self.house.ada, self.house.eve
        drawn = (b"\xaa" * 8 + n.to_bytes(2, "big") + bytes(6) for n in count())
        self.patch(self.house, "entropy", lambda size: next(drawn)[:size])
        begins = "aa" * 8
        own = self.denied(ada, "prod1")
        for _ in range(70):
            self.denied(eve, "db1")
        self.assertEqual(self.why(ada, begins), Explanation(begins))
        self.assertEqual(self.why(ada, own[:20]).decision_id, own)

    def test_a_beginning_of_a_request(self) -> None:
        """A request's id is found by what names its Proxy and the millisecond, or more."""
        origin, leader = Origin(self.house, "edge7"), Leader(self.house)
        numbers = origin.session()
        requests = [origin.request(numbers, decision=one) for one in ("allow", "deny")]
        leader.inject(origin.first, origin.batch(*requests))
        leader.drain()
        wanted = requests[1].decision_id
        self.assertEqual(self.why(self.house.ada, wanted[:31]).decision_id, wanted)
        self.assertFalse(self.why(self.house.eve, wanted[:31]).explained)
        self.assertEqual(refusal_of(self.asked(self.house.ada, wanted[:8])).reason, "ambiguous_id")

    def test_stranger_hidden_and_unknown_are_alike(self) -> None:
        """Another's decision, one on a hidden resource and an invented id get the same bytes."""
        others = self.denied(self.house.ada, "prod1")
        hidden = self.denied(self.house.eve, "db1")
        said = {
            explanation_message(
                evolve(self.why(self.house.eve, one), decision_id="-")
            ).SerializeToString()
            for one in (others, hidden, RANDOM, "no id at all")
        }
        self.assertEqual(len(said), 1)

    def test_a_right_lost_since(self) -> None:
        """Who may no longer view the resource is told no more of an older decision."""
        decision = self.denied(self.house.ada, "prod1")
        self.house.run(lambda tx: tx.people.set_groups(ADA, []))
        self.house.refresh()
        self.assertFalse(self.why(self.house.ada, decision).explained)

    def test_question_must_be_the_persons_own_and_fresh(self) -> None:
        """A question that is old, for another Proxy or of a revoked certificate is refused."""
        ada = self.house.ada
        self.assertEqual(self.refused(ada, issued_at_ms=1), "request_stale")
        self.assertEqual(self.refused(ada, proxy_id="z" * 26), "request_wrong_proxy")
        self.assertEqual(self.refused(ada, cluster="c2.test"), "request_wrong_proxy")
        forged = self.explainer.explain(b"x", b"y", ada.chain, self.proxy)
        self.assertEqual(refusal_of(forged).reason, "bad_signature")
        self.house.run(lambda tx: tx.certificates.revoke(ada.sha256, 9.0))
        self.assertEqual(self.refused(ada), "revoked_certificate")
