"""Facts that nobody enforces: no permit has effect by them, and no new policy reads them."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svc.interfaces.kinds import KindTerms
from svc.model.policy.access import Entity
from svc.model.policy.terms import AttributeTerm, EntityTerm, Terms
from svc.model.session.parameters import Parameter
from svc.policy.bundle import PolicyBundle, decode_bundle, encode_bundle, engine_of
from svc.policy.claims import refuse_claims
from svc.policy.compile import compile_policy
from svc.policy.engine import CompiledPolicy
from svc.policy.kind_terms import kind_terms
from svc.policy.refusals import PolicyRefused, VocabularyError
from svc.policy.vocabulary import Vocabulary, vocabulary
from svc.policy.words import CORE
from tests.policy.samples import ask, engine, everybody

DB = 'principal, action == Action::"dbConnect", resource'
DEPLOY = 'context has db_name && context.db_name == "deploy"'

READS = {
    "by name": f"when {{ {DEPLOY} }}",
    "by index": 'when { context has "db_name" && context["db_name"] == "deploy" }',
    "whether it is there": "when { context has db_name }",
    "whether it is not": "unless { context has db_name }",
    "within an if": f"when {{ if {DEPLOY} then true else false }}",
    "by a record that holds the context": (
        'when { {a: context}.a has db_name && {a: context}.a.db_name == "deploy" }'
    ),
    "by the whole context": "when { [context].contains(context) }",
    "in a second clause": f"when {{ true }} when {{ {DEPLOY} }}",
}


def connect(made: CompiledPolicy, db_name: str = "deploy") -> tuple[bool, tuple[str, ...]]:
    """Whether u1 may open r1 under that claim, and by which policies."""
    decision = made.decide(ask("u1", "r1", "dbConnect", "db_connect", "Database", db_name=db_name))
    return decision.allowed, decision.policies


def permit(name: str, clauses: str, scope: str = DB) -> str:
    """A policy of that name."""
    return f'@id("{name}") permit ({scope}) {clauses};\n'


OF_THE_CORE = {"db_name", "read_only", "fingerprint"}


class InForceTests(SynchronousTestCase):
    """A text that is in force already."""

    def test_permits_have_no_effect(self) -> None:
        """However a permit reads the claim, it lets nobody in, and the engine names it."""
        for label, clauses in READS.items():
            for scope in (DB, 'principal, action in Action::"use", resource'):
                made = engine(permit("claims", clauses, scope) + permit("root", "", DB))
                self.assertEqual(connect(made), (True, ("root",)), label)
                made = engine(permit("claims", clauses, scope))
                for claimed in ("deploy", "root", ""):
                    self.assertEqual(connect(made, claimed), (False, ()), label)
                self.assertEqual([one.policy for one in made.claims], ["claims"], label)
                request = ask("u1", "r1", "dbConnect", "db_connect", "Database", db_name="deploy")
                self.assertFalse(made.decide_by_all(request).allowed, label)

    def test_forbids_stay(self) -> None:
        """A forbid that reads the claim forbids as it did."""
        made = engine(permit("all", "") + f'@id("no-deploy") forbid ({DB}) when {{ {DEPLOY} }};')
        self.assertEqual(connect(made, "deploy"), (False, ("no-deploy",)))
        self.assertEqual(connect(made, "root"), (True, ("all",)))
        self.assertEqual(
            [(one.policy, one.is_permit) for one in made.claims], [("no-deploy", False)]
        )

    def test_others_keep_their_effect(self) -> None:
        """What reads other facts, or all those of an action without a claim, is as it was."""
        tcp = 'principal, action == Action::"tcpConnect", resource'
        made = engine(
            permit("noon", "when { context has hour && context.hour == 12 }", DB)
            + permit("whole", "when { [context].contains(context) }", tcp)
        )
        self.assertEqual(made.claims, ())
        request = ask("u1", "r1", "dbConnect", "db_connect", "Database", hour=12, db_name="deploy")
        self.assertEqual(made.decide(request).policies, ("noon",))
        self.assertTrue(made.decide(ask("u1", "r1")).allowed)

    def test_other_entities(self) -> None:
        """Over other people and resources the same policies are without effect."""
        made = engine(permit("claims", READS["by name"])).with_entities(everybody(), 8)
        self.assertEqual((connect(made), len(made.claims)), ((False, ()), 1))

    def test_at_a_proxy(self) -> None:
        """Who gets the policy in a bundle leaves out the same permits."""
        entities: tuple[Entity, ...] = everybody()
        text = permit("claims", READS["by name"])
        sent = encode_bundle(
            PolicyBundle(
                policy_version=1,
                entity_revision=7,
                terms=vocabulary().terms,
                policy_text=text,
                entities=entities,
            )
        )
        made = engine_of(decode_bundle(sent))
        self.assertEqual(
            (connect(made), [one.policy for one in made.claims]), ((False, ()), ["claims"])
        )


class NewTextTests(SynchronousTestCase):
    """A text that somebody proposes."""

    def refusal(self, text: str, words: Vocabulary | None = None) -> PolicyRefused:
        made = compile_policy(text, words or vocabulary(), (), 1)
        refusal: PolicyRefused = self.assertRaises(PolicyRefused, refuse_claims, made.claims)
        return refusal

    def test_refused(self) -> None:
        """Permits and forbids that read the claim in any way are refused by name."""
        for label, clauses in READS.items():
            for effect in ("permit", "forbid"):
                refusal = self.refusal(f'@id("ops-deploy") {effect} ({DB}) {clauses};')
                self.assertEqual(refusal.reason, "policy_unenforced_fact", label)
                self.assertIn("policy ops-deploy: ", refusal.text)
                self.assertIn("db_name", refusal.text)
                self.assertIn("nothing enforces", refusal.text)

    def test_every_policy_is_named(self) -> None:
        """All the policies that have to be changed are told at once."""
        text = permit("one", READS["by name"]) + permit("two", READS["by index"])
        self.assertIn("policies one, two: ", self.refusal(text).text)

    def test_good_texts(self) -> None:
        """A text that reads no claim passes."""
        refuse_claims(
            engine(permit("all", "") + permit("noon", "when { context has hour }")).claims
        )


class KindTests(SynchronousTestCase):
    """A kind says which of its facts are claims."""

    def words(self, **facts: str) -> Vocabulary:
        terms = KindTerms("Desktop", "vncConnect", {"vncConnect": "connect"}, context=facts)
        return vocabulary(kind_terms(terms))

    def test_own_facts(self) -> None:
        """The third word of a fact's form makes it a claim."""
        words = self.words(seat="String public claimed", screen="Long public")
        self.assertEqual(words.claimed, {*OF_THE_CORE, "seat"})

    def test_facts_of_the_core(self) -> None:
        """One kind that only claims a fact of the core makes it a claim for every policy."""
        self.assertIn("db_role", self.words(db_role="String public claimed").claimed)
        self.assertNotIn("db_role", self.words(db_role="String public").claimed)

    def test_parameters(self) -> None:
        """What a dialer enforces is a fact of every action; what it does not is a claim."""
        terms = KindTerms(
            "Desktop",
            "vncConnect",
            {"vncConnect": "connect", "vncPaste": "web"},
            parameters={
                "seat": Parameter(fact="personal"),
                "screen": Parameter(fact="public", enforced=True),
                "quiet": Parameter(enforced=True),
            },
        )
        words = vocabulary(kind_terms(terms))
        self.assertEqual(words.claimed, {*OF_THE_CORE, "seat"})
        for action in ("vncConnect", "vncPaste"):
            self.assertLessEqual({"seat", "screen"}, set(words.shapes[action].facts))
            self.assertNotIn("quiet", words.shapes[action].facts)
            self.assertEqual(words.classified(action, "seat"), "personal")

    def test_a_parameter_is_no_other_fact(self) -> None:
        """A parameter is a text of its own: neither a fact of a request nor one of another type."""
        for parameter, context in (("key", {"key": "String public"}), ("read_only", {})):
            terms = KindTerms(
                "Desktop",
                "v",
                {"v": "connect"},
                context=context,
                parameters={parameter: Parameter(fact="public")},
            )
            self.assertRaises(VocabularyError, kind_terms, terms)

    def test_only_facts_of_requests(self) -> None:
        """An attribute of an entity, or a part of a record, cannot be marked as a claim."""
        odd = AttributeTerm(
            name="odd", type="String", classified="public", help="Odd.", claimed=True
        )
        record = AttributeTerm(name="more", type=(odd,), classified="public", help="A record.")
        for terms in (
            Terms(
                entities=(EntityTerm(name="Desktop", help="One.", member_of=(), attributes=(odd,)),)
            ),
            Terms(facts=(record,)),
        ):
            self.assertRaises(VocabularyError, vocabulary, terms)
        own = {"odd": "String public claimed"}
        kind = KindTerms("Desktop", "v", {"v": "connect"}, attributes=own)
        self.assertRaises(VocabularyError, lambda: vocabulary(kind_terms(kind)))

    def test_the_core(self) -> None:
        """Of the facts of the core nobody fills these."""
        self.assertEqual({fact.name for fact in CORE.facts if fact.claimed}, OF_THE_CORE)
