"""The words of policies: joined once, classified, and told on a page."""

from cedarpy import Schema
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Malformed
from svc.model.policy.access import REQUEST_KINDS
from svc.model.policy.terms import ActionTerm, AttributeTerm, EntityTerm, Terms
from svc.policy.refusals import VocabularyError
from svc.policy.terms_json import terms_form, terms_from_form
from svc.policy.vocabulary import vocabulary
from svc.policy.words import CORE

DESKTOP = Terms(
    entities=(
        EntityTerm(
            name="Desktop",
            help="A desktop.",
            member_of=("Organization",),
            attributes=(),
            tagged=True,
        ),
    ),
    facts=(AttributeTerm(name="screen", type="Long", classified="public", help="Which screen."),),
    actions=(
        ActionTerm(
            name="view",
            request_kind="view",
            principals=("User",),
            resources=("Desktop",),
            help="See it.",
        ),
        ActionTerm(
            name="vncConnect",
            request_kind="connect",
            principals=("User",),
            resources=("Desktop",),
            help="Open.",
            groups=("use",),
            context=("screen",),
        ),
    ),
)


class VocabularyTests(SynchronousTestCase):
    """The core's words and those of a kind."""

    def test_schema(self) -> None:
        """Cedar takes the schema, with and without a kind's own words."""
        for words in (vocabulary(), vocabulary(DESKTOP)):
            Schema.from_str(words.schema)
        self.assertNotEqual(vocabulary().digest, vocabulary(DESKTOP).digest)

    def test_kind(self) -> None:
        """A kind's actions belong to their group, and its resources can be viewed."""
        words = vocabulary(DESKTOP)
        self.assertIn("vncConnect", words.members["use"])
        self.assertLessEqual({"Desktop", "Server"}, words.shapes["view"].resources)
        self.assertEqual(words.classified("vncConnect", "screen"), "public")

    def test_order_of_parts(self) -> None:
        """A kind named twice changes nothing."""
        self.assertEqual(vocabulary(DESKTOP, DESKTOP).schema, vocabulary(DESKTOP).schema)

    def test_every_action(self) -> None:
        """Every action counts as a known kind of request, and every fact has its class."""
        for action in CORE.actions:
            self.assertIn(action.request_kind, REQUEST_KINDS)
            for name in action.context:
                self.assertIn(vocabulary().classified(action.name, name), ("public", "personal"))

    def test_unclassified(self) -> None:
        """A fact without a class, or called secret, cannot be declared."""
        self.assertRaises(ValueError, AttributeTerm, "token", "String", "secret", "No.")
        self.assertRaises(TypeError, AttributeTerm, "token", "String", help="No.")
        form = terms_form(DESKTOP)
        del form["facts"][0]["classified"]
        self.assertRaises(Malformed, terms_from_form, form)

    def test_wrong_terms(self) -> None:
        """Terms that do not go together are refused."""
        fact = AttributeTerm(name="hour", type="String", classified="public", help="Another hour.")
        wrong = (
            Terms(facts=(fact,)),
            Terms(facts=(AttributeTerm(name="x y", type="Long", classified="public", help=""),)),
            Terms(facts=(AttributeTerm(name="x", type="Float", classified="public", help=""),)),  # type: ignore[arg-type]
            Terms(entities=(EntityTerm("Action", ""),)),
            Terms(entities=(EntityTerm("Box", "", ("Nowhere",)),)),
            Terms(
                actions=(
                    ActionTerm(
                        name="go",
                        request_kind="connect",
                        principals=("User",),
                        resources=("Moon",),
                        help="",
                    ),
                )
            ),
            Terms(
                actions=(
                    ActionTerm(
                        name="go",
                        request_kind="fly",
                        principals=("User",),
                        resources=("Server",),
                        help="",
                    ),
                )
            ),
            Terms(
                actions=(
                    ActionTerm(
                        name="go", request_kind="web", principals=("User",), resources=(), help=""
                    ),
                )
            ),
            Terms(
                actions=(
                    ActionTerm(
                        name="go",
                        request_kind="web",
                        principals=("User",),
                        resources=("WebApp",),
                        help="",
                        groups=("all",),
                    ),
                )
            ),
            Terms(
                actions=(
                    ActionTerm(
                        name="go",
                        request_kind="web",
                        principals=("User",),
                        resources=("WebApp",),
                        help="",
                        groups=(),
                        context=("no",),
                    ),
                )
            ),
            Terms(
                actions=(
                    ActionTerm(
                        name="view",
                        request_kind="web",
                        principals=("User",),
                        resources=("WebApp",),
                        help="",
                    ),
                )
            ),
        )
        for terms in wrong:
            self.assertRaises(VocabularyError, vocabulary, terms)

    def test_form(self) -> None:
        """Terms come back from their form as they were."""
        terms = vocabulary(DESKTOP).terms
        self.assertEqual(terms_from_form(terms_form(terms)), terms)
