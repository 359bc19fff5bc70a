"""Signing in, refusals on the way, and identities that are linked, over a store in memory."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from twisted.trial.unittest import SynchronousTestCase

from svc.authority.signin.assertion import TakenAssertions
from svc.authority.signin.attempts import Flow
from svc.authority.signin.links import IdentityLinks
from svc.authority.state.recorder import operator
from svc.errors import Fault, SvcError
from svc.model.cluster.account import ADMINISTRATORS
from svc.model.cluster.person import Person
from svc.pki.issue import make_request
from svc.pki.root import new_key
from svc.proto.gate.v1 import sign_in_pb2 as pb
from svc.proto.gate.v1.admin_pb2 import (
    AddGroupRequest,
    ChangeMembersRequest,
    ForgetNameRequest,
)
from tests.authority.house import ADA, refusal_of, value_of
from tests.authority.signin.memory import METADATA, WELL_KNOWN, SignInHouse
from tests.authority.signin.tokens import CLIENT, ISSUER, signed
from tests.pki.support import CLUSTER
from tests.support.proof import proves

OPERATOR = operator(0)
RS = {"alg": "RS256", "kid": "r1"}


class CodeTests(SynchronousTestCase):
    """Authorization code with PKCE."""

    def setUp(self) -> None:
        self.at = SignInHouse()
        self.house = self.at.house

    def people(self) -> list[Person]:
        """Everybody, but those of the house."""
        found: list[Person] = self.house.run(lambda tx: tx.people.all())
        return [one for one in found if "@" in one.name]

    def test_a_new_person(self) -> None:
        """A first sign-in makes a person, in the groups that exist here; the second is the same."""
        answer = value_of(self.at.sign_in(groups=["dev", "unknown"]))
        self.assertEqual((answer.name, list(answer.groups)), ("ada@example.org", ["dev"]))
        again = value_of(self.at.sign_in(groups=[]))
        self.assertEqual(again.principal, answer.principal)
        (person,) = self.people()
        self.assertEqual(person.groups, ())
        events = [record["event"] for record in self.house.records()]
        for event in ("person.add", "identity.link", "person.sign_in", "group.leave"):
            self.assertIn(event, events)

    def test_what_the_provider_is_asked(self) -> None:
        """The challenge goes with the browser; the verifier with the code, from Authority."""
        begun, asked = value_of(self.at.begin())
        self.assertEqual(asked["code_challenge_method"], "S256")
        self.assertEqual(asked["redirect_uri"], "http://127.0.0.1:1024/callback")
        self.at.agent.answer("/token", self.at.tokens(nonce=asked["nonce"]))
        value_of(self.at.complete(begun, f"state={begun.state}&code=c1"))
        ((_, form),) = [one for one in self.at.agent.asked if one[0] == "/token"]
        self.assertEqual((form["code"], form["client_id"]), ("c1", CLIENT))
        self.assertEqual(len(form["code_verifier"]), 43)
        self.assertNotIn(form["code_verifier"], begun.url)

    def test_bound_to_its_key(self) -> None:
        """A code of one attempt is of no use in another: its nonce is of the other's key."""
        _, stolen = value_of(self.at.begin())
        begun, _ = value_of(self.at.begin())
        self.at.agent.answer("/token", self.at.tokens(nonce=stolen["nonce"]))
        refused = refusal_of(self.at.complete(begun, f"state={begun.state}&code=stolen"))
        self.assertEqual(refused.reason, "id_token_nonce")
        self.assertEqual(self.house.records("sign_in.refused")[0]["reason"], "id_token_nonce")

    def test_used_once(self) -> None:
        """An attempt ends with its first answer, good or bad, or after ten minutes."""
        begun, _ = value_of(self.at.begin())
        for reason in ("redirect_state", "attempt_unknown"):
            refused = refusal_of(self.at.complete(begun, "state=other&code=c1"))
            self.assertEqual(refused.reason, reason)
        begun, _ = value_of(self.at.begin())
        self.house.clock.advance(600)
        refused = refusal_of(self.at.complete(begun, f"state={begun.state}&code=c1"))
        self.assertEqual(refused.reason, "attempt_over")
        reasons = [one["reason"] for one in self.house.records("sign_in.refused")]
        self.assertEqual(reasons, ["redirect_state", "attempt_over"])
        refused = refusal_of(self.at.poll(value_of(self.at.begin())[0]))
        self.assertEqual(refused.reason, "attempt_unknown")

    def test_who_is_not_let_in(self) -> None:
        """An account never becomes somebody who exists; one whom an operator revoked stays out."""
        self.house.run(
            lambda tx: tx.people.add(Person("p" * 26, "eve@example.org", salt=b"s"), 1.0)
        )
        refused = refusal_of(self.at.sign_in(sub="00u2", email="eve@example.org"))
        self.assertEqual(refused.reason, "name_taken")
        value_of(self.at.sign_in())
        (person,) = [one for one in self.people() if one.name == "ada@example.org"]
        self.house.run(lambda tx: tx.people.revoke(person.id, 2.0))
        self.assertEqual(refusal_of(self.at.sign_in()).reason, "revoked_person")
        reasons = [record["reason"] for record in self.house.records("sign_in.refused")]
        self.assertEqual(reasons, ["name_taken", "revoked_person"])

    def test_name_like_an_id(self) -> None:
        """Nobody is named by what would be taken for another person's id."""
        at = SignInHouse(admission={"name_claim": "nickname"})
        refused = refusal_of(at.sign_in(nickname=ADA))
        self.assertEqual(refused.reason, "name_missing")
        value_of(at.sign_in(nickname="ada.l"))

    def test_disabled(self) -> None:
        """Somebody whom an operator has disabled signs in again once they are enabled."""
        answer = value_of(self.at.sign_in())
        person = answer.principal.rpartition("/")[2]
        self.house.run(lambda tx: tx.people_changes.disable(person))
        self.assertEqual(refusal_of(self.at.sign_in()).reason, "disabled_person")
        self.house.run(lambda tx: tx.people_changes.enable(person))
        value_of(self.at.sign_in())

    def test_nobody_is_made(self) -> None:
        """Without create_persons an account that is nobody's is refused, and told its subject."""
        at = SignInHouse(admission={"create_persons": False})
        refused = refusal_of(at.sign_in())
        self.assertEqual(refused.reason, "unknown_account")
        self.assertIn("subject 00u1", refused.text)

    def test_rows_put_there_by_sql(self) -> None:
        """A link that no signed record covers signs nobody in, and neither does a moved one."""
        value_of(self.at.sign_in())
        self.house.by_sql(
            "INSERT INTO person_identities (id, issuer, subject, person_id, salt)"
            f" VALUES ('x', 'https://id.example', '00u9', '{ADA}', x'00')"
        )
        self.assertEqual(refusal_of(self.at.sign_in(sub="00u9")).reason, "state_unsigned")
        self.house.by_sql(f"UPDATE person_identities SET person_id = '{ADA}' WHERE id <> 'x'")
        self.assertEqual(refusal_of(self.at.sign_in()).reason, "state_unsigned")

    @proves("U-OIDC-08")
    def test_groups_administer_nothing(self) -> None:
        """Whatever groups a provider names, nobody becomes an operator by them."""
        answer = value_of(self.at.sign_in(groups=["dev", "operators", "administrators"]))
        self.assertEqual(list(answer.groups), ["dev"])
        self.assertIn("/user/", answer.principal)

    @proves("U-OIDC-08")
    def test_the_administrators_are_not_the_providers(self) -> None:
        """Its group of that name lets nobody in among them, and the lack of it puts nobody out."""
        groups = self.house.registry().groups
        value_of(groups.add_group(AddGroupRequest(name=ADMINISTRATORS), OPERATOR))
        self.house.refresh()
        answer = value_of(self.at.sign_in(groups=["dev", ADMINISTRATORS]))
        self.assertEqual(list(answer.groups), ["dev"])
        (known,) = self.people()
        joining = ChangeMembersRequest(group=ADMINISTRATORS, add=[known.id])
        value_of(groups.change_members(joining, OPERATOR))
        self.house.refresh()
        again = value_of(self.at.sign_in(groups=["dev"]))
        self.assertEqual(list(again.groups), [ADMINISTRATORS, "dev"])


class MixUpTests(SynchronousTestCase):
    """What another provider answers, brought to an attempt at ours (RFC 9207, RFC 9700 4.4)."""

    other = "https://other.example"

    def attempt(self, names_issuer: object, query: str) -> tuple[SignInHouse, SvcError]:
        """How a return is refused, at a provider that says this of itself."""
        at = SignInHouse()
        metadata = {**METADATA, "authorization_response_iss_parameter_supported": names_issuer}
        at.agent.answer(WELL_KNOWN, metadata)
        begun, asked = value_of(at.begin())
        at.agent.answer("/token", at.tokens(nonce=asked["nonce"]))
        return at, refusal_of(at.complete(begun, f"state={begun.state}&{query}"))

    def test_by_its_issuer(self) -> None:
        """Whether our provider names itself or not, one that names another issuer is refused."""
        named = quote(self.other, safe="")
        own = quote(ISSUER, safe="")
        for query in (
            f"code=c1&iss={named}",
            f"error=access_denied&iss={named}",
            f"code=c1&iss={own}%2F",
            f"code=c1&iss={own.upper()}",
            f"code=c1&iss={quote(ISSUER.replace('https', 'http'), safe='')}",
            "code=c1&iss=",
        ):
            for names_issuer in (True, False, None, "true"):
                with self.subTest(query=query, names_issuer=names_issuer):
                    at, refused = self.attempt(names_issuer, query)
                    self.assertEqual(refused.reason, "redirect_issuer")
                    (record,) = at.house.records("sign_in.refused")
                    self.assertEqual(record["reason"], "redirect_issuer")
                    self.assertEqual(at.agent.count("/token"), 0)
        at, refused = self.attempt(True, f"code=c1&iss={own}&iss={named}")
        self.assertEqual(refused.reason, "redirect_malformed")
        self.assertEqual(at.agent.count("/token"), 0)

    def test_without_an_issuer(self) -> None:
        """A provider that says it names itself has to; of any other the answer goes on."""
        for query in ("code=c1", "error=access_denied"):
            at, refused = self.attempt(True, query)
            self.assertEqual(refused.reason, "redirect_issuer")
            self.assertEqual(at.agent.count("/token"), 0)
        for names_issuer in (False, None, "true", 1):
            _, refused = self.attempt(names_issuer, "error=access_denied")
            self.assertEqual(refused.reason, "sign_in_denied")

    def test_that_says_nothing(self) -> None:
        """Neither provider advertises or names anything: its code and its token are of no use."""
        for answer, status, reason in (
            ({"error": "invalid_grant"}, 400, "provider_refused"),
            ({"iss": self.other}, 200, "id_token_issuer"),
            ({"nonce": "n" * 43}, 200, "id_token_nonce"),
            ({"aud": "svc-elsewhere"}, 200, "id_token_audience"),
        ):
            with self.subTest(reason):
                at = SignInHouse()
                begun, asked = value_of(at.begin())
                told = answer if status == 400 else at.tokens(**{"nonce": asked["nonce"], **answer})
                at.agent.answer("/token", told, status=status)
                refused = refusal_of(at.complete(begun, f"state={begun.state}&code=theirs"))
                self.assertEqual(refused.reason, reason)
                (record,) = at.house.records("sign_in.refused")
                self.assertEqual(record["reason"], reason)

    def test_of_a_stranger(self) -> None:
        """A token by a key that only the other provider has is refused before it is read."""
        at = SignInHouse()
        begun, asked = value_of(at.begin())
        claims = at.claims(nonce=asked["nonce"])
        token = signed({"alg": "RS256", "kid": "theirs"}, claims)
        at.agent.answer("/token", {"id_token": token, "access_token": "access"})
        refused = refusal_of(at.complete(begun, f"state={begun.state}&code=theirs"))
        self.assertEqual(refused.reason, "id_token_key")

    def test_two_clusters(self) -> None:
        """One machine, two Authorities, a provider each: neither takes the other's return."""
        here, there = SignInHouse(), SignInHouse()
        value_of(there.begin())  # what is drawn is the same in both otherwise
        (begun, _), (other, _) = value_of(here.begin()), value_of(there.begin())
        refused = refusal_of(here.complete(begun, f"state={other.state}&code=c1"))
        self.assertEqual(refused.reason, "redirect_state")
        self.assertEqual(here.agent.count("/token"), 0)


class MachineTests(SynchronousTestCase):
    """An ID token for the cluster itself."""

    def setUp(self) -> None:
        self.at = SignInHouse()

    def token(self, **claims: Any) -> str:
        """A token; for the cluster unless told otherwise."""
        return signed(RS, self.at.claims(**{"aud": CLUSTER, **claims}))

    def test_of_another_flow(self) -> None:
        """A token of a browser's sign-in, or one that another client asked for, is refused."""
        for claims, reason in (
            ({"nonce": "n" * 43}, "id_token_nonce"),
            ({"nonce": ""}, "id_token_nonce"),
            ({"azp": CLIENT}, "id_token_azp"),
            ({"azp": ["x"]}, "id_token_azp"),
        ):
            with self.subTest(claims=claims):
                self.assertEqual(refusal_of(self.at.assertion(self.token(**claims))).reason, reason)
        value_of(self.at.assertion(self.token(azp=CLUSTER)))

    def test_once(self) -> None:
        """It is taken once, whoever brings it."""
        token = self.token()
        value_of(self.at.assertion(token))
        self.assertEqual(refusal_of(self.at.assertion(token)).reason, "assertion_replayed")
        value_of(self.at.assertion(self.token(jti="2")))

    def test_the_store_fails(self) -> None:
        """One by which nobody was let in is good for the same key once more, and for no other."""
        token, csr = self.token(), make_request(new_key())
        self.at.house.store.mood = "down"
        self.assertEqual(refusal_of(self.at.assertion(token, csr)).fault, Fault.UNAVAILABLE)
        self.at.house.store.mood = "well"
        self.assertEqual(refusal_of(self.at.assertion(token)).reason, "assertion_replayed")
        value_of(self.at.assertion(token, csr))
        self.assertEqual(refusal_of(self.at.assertion(token, csr)).reason, "assertion_replayed")

    def test_after_a_takeover(self) -> None:
        """What the leader before may have taken is refused, and everything until somebody leads."""
        house = self.at.house
        taken = TakenAssertions(house.now, 60.0)
        self.at.service.taken = taken
        self.assertEqual(refusal_of(self.at.assertion(self.token())).reason, "assertion_old")
        house.clock.advance(1000)  # a standby is made long before it leads
        before = self.token()
        house.clock.advance(1)
        taken.begin()
        self.assertEqual(refusal_of(self.at.assertion(before)).reason, "assertion_old")
        house.clock.advance(59)
        self.assertEqual(refusal_of(self.at.assertion(self.token())).reason, "assertion_old")
        house.clock.advance(1)
        value_of(self.at.assertion(self.token()))

    def test_refused(self) -> None:
        """For the browser's client, of before the start, or good for days: it is refused."""
        now = self.at.house.now()
        for claims, reason in (
            ({"aud": CLIENT}, "id_token_audience"),
            ({"aud": [CLUSTER, CLIENT]}, "id_token_audience"),
            ({"iat": now - 1}, "assertion_old"),
            ({"exp": now + 86_401}, "assertion_life"),
        ):
            with self.subTest(claims=claims):
                self.assertEqual(refusal_of(self.at.assertion(self.token(**claims))).reason, reason)


class FlowTests(SynchronousTestCase):
    """What an operator has switched off."""

    def test_switched_off(self) -> None:
        """It is refused before the provider is asked anything, and the key is named."""
        for flow in (Flow.CODE, Flow.DEVICE, Flow.TOKEN):
            at = SignInHouse({"flows": set(Flow) - {flow}})
            asking = {
                Flow.CODE: lambda at=at: at.begin(),
                Flow.DEVICE: lambda at=at: at.begin(flow="device"),
                Flow.TOKEN: lambda at=at: at.assertion(signed(RS, at.claims(aud=CLUSTER))),
            }
            for each, ask in asking.items():
                if each is not flow:
                    value_of(ask())
            at.agent.asked.clear()
            refused = refusal_of(asking[flow]())
            self.assertEqual(refused.reason, "sign_in_flow")
            self.assertIn(f'add "{flow.value}" to oidc.flows', refused.text)
            self.assertEqual(at.agent.asked, [])


class LinkTests(SynchronousTestCase):
    """Accounts that an operator makes somebody's."""

    def setUp(self) -> None:
        self.at = SignInHouse(admission={"create_persons": False})
        house = self.at.house
        self.links = IdentityLinks(house.writer(), ISSUER, house.rights())

    def link(self, person: str, subject: str) -> Any:
        """Link an account of the configured provider."""
        request = pb.LinkIdentityRequest(person=person, subject=subject)
        return self.links.link(request, operator(0))

    def test_linked(self) -> None:
        """An account that an operator linked signs in as that person, who existed before."""
        value_of(self.link("ada", "00u1"))
        answer = value_of(self.at.sign_in())
        self.assertTrue(answer.principal.endswith(f"/user/{ADA}"))
        (row,) = value_of(self.links.list_links(pb.ListIdentitiesRequest(), operator(0))).identities
        self.assertEqual((row.person, row.subject), ("ada", "00u1"))
        (record,) = self.at.house.records("identity.link")
        self.assertEqual(record["actor"]["kind"], "operator")

    def test_refused(self) -> None:
        """Nobody's person, an account that is somebody's, and what is no subject."""
        value_of(self.link("ada", "00u1"))
        for person, subject, reason in (
            ("nobody", "00u2", "unknown_person"),
            ("eve", "00u1", "already_exists"),
            ("eve", "", "malformed"),
            ("eve", "a\nb", "malformed"),
        ):
            refused = refusal_of(self.link(person, subject))
            self.assertEqual(refused.reason, reason)

    def test_removed(self) -> None:
        """An account that is removed signs in no more, and what it signed in with is revoked."""
        value_of(self.link("ada", "00u1"))
        key = new_key()
        answer = value_of(self.at.sign_in(key))
        (row,) = value_of(self.links.list_links(pb.ListIdentitiesRequest(), operator(0))).identities
        request = pb.RemoveIdentityRequest(id=row.id, note="left")
        gone = value_of(self.links.unlink(request, operator(0)))
        self.assertEqual((gone.person_id, gone.sign_ins, gone.certificates), (ADA, 1, 1))
        self.assertEqual(refusal_of(self.at.sign_in()).reason, "unknown_account")
        refused = refusal_of(self.at.renew(key, answer.chain, new_key()))
        self.assertEqual(refused.reason, "revoked_certificate")
        self.assertEqual(
            refusal_of(self.links.unlink(request, operator(0))).reason, "unknown_identity"
        )
        (record,) = self.at.house.records("identity.unlink")
        self.assertEqual(record["details"]["identity_id"], row.id)

    def test_removed_by_sql(self) -> None:
        """An account that was removed and is put back by SQL signs nobody in."""
        value_of(self.link("ada", "00u1"))
        (row,) = value_of(self.links.list_links(pb.ListIdentitiesRequest(), operator(0))).identities
        value_of(self.links.unlink(pb.RemoveIdentityRequest(id=row.id), operator(0)))
        self.at.house.by_sql(
            "INSERT INTO person_identities (id, issuer, subject, person_id, salt)"
            f" VALUES ('{row.id}', '{ISSUER}', '00u1', '{ADA}', x'00')"
        )
        self.assertEqual(refusal_of(self.at.sign_in()).reason, "state_unsigned")

    def test_forgotten(self) -> None:
        """Whose name is forgotten has no account here, and refused sign-ins do not name it."""
        house = self.at.house
        self.assertEqual(refusal_of(self.at.sign_in()).reason, "unknown_account")
        self.assertEqual(refusal_of(self.at.sign_in(sub="00u7")).reason, "unknown_account")
        value_of(self.link("ada", "00u1"))
        erasure = house.registry().erasure
        request = ForgetNameRequest(person=ADA, records=True)
        answer = value_of(erasure.forget_name(request, operator(0)))
        self.assertTrue(answer.changed)
        self.assertEqual(house.run(lambda tx: tx.sign_ins.identities()), ())
        beside: dict[int, Any] = house.run(lambda tx: tx.audit.personal(1, 1000))
        said = [one.value for values in beside.values() for one in values]
        self.assertNotIn('"00u1"', said)
        self.assertIn('"00u7"', said)
        again = value_of(erasure.forget_name(request, operator(0)))
        self.assertEqual((again.changed, again.erased), (False, 0))
