"""What is told of a decision."""

from twisted.trial.unittest import SynchronousTestCase

from svc.policy.explain import Explanation, explain
from tests.policy.samples import ask, engine

TEXT = (
    '@id("all") permit (principal, action, resource);'
    '@id("night") @reason("nothing opens at night") forbid (principal, action, resource) '
    "when { context has hour && context.hour < 6 };"
)


class ExplainTests(SynchronousTestCase):
    """Reasons for those who may see them."""

    def setUp(self) -> None:
        self.engine = engine(TEXT)
        self.denied = self.engine.decide(ask(hour=3))
        self.reasons = self.engine.reasons()
        self.texts = {"night": "forbid …"}

    def test_not_viewable(self) -> None:
        """Who may not view the resource learns the same of every decision."""
        told = {
            repr(explain(decision, False, True, self.reasons, self.texts))
            for decision in (
                self.denied,
                self.engine.decide(ask(hour=12)),
                self.engine.decide(ask("nobody", "nothing", hour=3)),
                self.engine.decide(ask(action="fly")),
            )
        }
        self.assertEqual(told, {repr(Explanation("denied"))})

    def test_viewable(self) -> None:
        """Who may view it learns the policy's id and reason, but not its text."""
        told = explain(self.denied, True, False, self.reasons, self.texts)
        self.assertEqual((told.reason, told.policies), ("forbidden", ("night",)))
        self.assertEqual(dict(told.why), {"night": "nothing opens at night"})
        self.assertEqual(dict(told.texts), {})

    def test_text(self) -> None:
        """Who may read policies gets the text."""
        told = explain(self.denied, True, True, self.reasons, self.texts)
        self.assertEqual(dict(told.texts), self.texts)

    def test_words(self) -> None:
        """Each sort of decision has its word."""
        self.assertEqual(explain(self.engine.decide(ask(hour=9)), True).reason, "allowed")
        self.assertEqual(explain(engine("").decide(ask()), True).reason, "no_policy_permits")
        wrong = self.engine.decide(ask(hour="x"))
        self.assertEqual(explain(wrong, True).reason, "policy_error")
        self.assertEqual(explain(wrong, True).errors, ("context_malformed:hour",))
