"""What could be allowed at all: never less than what is allowed once all facts are known."""

from __future__ import annotations

from random import Random

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from svc.kinds.web.terms import TERMS
from svc.model.policy.access import AccessRequest, EntityUid
from svc.policy.compile import compile_policy
from svc.policy.engine import CompiledPolicy
from svc.policy.entities import PersonFacts, ResourceFacts, entities_of
from svc.policy.kind_terms import kind_terms
from svc.policy.vocabulary import vocabulary
from tests.policy.samples import engine, random_policy, random_request

#: A policy's conditions; whether GET, POST and an upgrade could be allowed by it.
GET, POST = (f'context has method && context.method == "{method}"' for method in ("GET", "POST"))
ADMIN = 'context has path && context.path like "/admin*"'
UPGRADE = "context has upgrade && context.upgrade"
PERMITS = (
    ("", True, True, True),
    (f"when {{ {GET} }}", True, False, True),
    (f"when {{ {ADMIN} }}", True, True, True),
    (f"when {{ {GET} && {ADMIN} }}", True, False, True),
    (f"when {{ ({GET}) || ({ADMIN}) }}", True, True, True),
    (f"unless {{ {POST} }}", True, False, True),
    (f"unless {{ {ADMIN} }}", True, True, True),
    ('when { context has method && ["GET", "HEAD"].contains(context.method) }', True, False, True),
    (f"when {{ !({GET}) }}", False, True, True),
    (f"when {{ if {ADMIN} then {GET} else false }}", True, False, True),
    (f"when {{ if {GET} then true else {ADMIN} }}", True, True, True),
    (f"when {{ if {GET} then true else false }}", True, False, True),
    (f"when {{ {UPGRADE} }}", True, True, True),
    (f"unless {{ {UPGRADE} }}", True, True, False),
    (f'when {{ {GET} && principal.name == "x" }}', False, False, False),
    ("when { false }", False, False, False),
)
FORBIDS = (
    ("", False, False, False),
    (f"when {{ {POST} }}", True, False, True),
    (f"when {{ {POST} && {ADMIN} }}", True, True, True),
    (f"when {{ ({POST}) || ({ADMIN}) }}", True, False, True),
    (f"unless {{ {GET} }}", True, False, True),
    (f"unless {{ {ADMIN} }}", True, True, True),
    (f"when {{ {UPGRADE} }}", True, True, False),
    (f"when {{ if {ADMIN} then true else {POST} }}", True, False, True),
)
PERMIT = 'permit (principal, action == Action::"webAccess", resource)'
FORBID = 'forbid (principal, action == Action::"webAccess", resource)'
WORDS = vocabulary(kind_terms(TERMS))


def web(**facts: str | bool) -> AccessRequest:
    """A request of which this is known."""
    return AccessRequest(
        request_kind="web",
        principal=EntityUid("User", "u1"),
        action="webAccess",
        resource=EntityUid("WebApp", "r1"),
        context=facts,
    )


class PossibleTests(SynchronousTestCase):
    def test_permits(self) -> None:
        """A permit is possible unless the known facts rule it out."""
        for conditions, *expected in PERMITS:
            made = self.made(f'@id("a") {PERMIT} {conditions};')
            self.assertEqual(self.answers(made), expected, conditions)

    def test_forbids(self) -> None:
        """A forbid counts only if the known facts make it certain."""
        for conditions, *expected in FORBIDS:
            made = self.made(f'@id("a") {PERMIT}; @id("b") {FORBID} {conditions};')
            self.assertEqual(self.answers(made), expected, conditions)

    def test_by_which(self) -> None:
        """The permits that might allow it are named, and those alone."""
        made = self.made(
            f'@id("a") {PERMIT} when {{ {GET} }}; @id("b") {PERMIT} when {{ {POST} }};'
            f'@id("c") {PERMIT} when {{ {ADMIN} }};'
        )
        self.assertEqual(made.may_ever_by(web(method="GET")), {"a", "c"})
        self.assertEqual(made.may_ever_by(web()), {"a", "b", "c"})
        refused = self.made(f'@id("a") {PERMIT}; @id("b") {FORBID};')
        self.assertEqual(refused.may_ever_by(web()), frozenset())

    def made(self, text: str) -> CompiledPolicy:
        """An engine that knows web applications."""
        people = [PersonFacts("u1", "ada", ())]
        what = ResourceFacts(id="r1", entity_type="WebApp", kind="web")
        return compile_policy(text, WORDS, entities_of([*people, what], "c"), 1)

    def answers(self, made: CompiledPolicy) -> list[bool]:
        asked = web(method="GET"), web(method="POST"), web(upgrade=True)
        return [made.may_ever(one) for one in asked]

    def test_never_less_than_allowed(self) -> None:
        """Whatever is allowed was possible by any part of its facts."""
        random, allowed, impossible = Random(27), 0, 0
        for _ in range(20):
            ours = engine("\n".join(random_policy(random, f"p{n}") for n in range(12)))
            for _ in range(60):
                request = random_request(random)
                names = [name for name in request.context if random.random() < 0.5]
                known = evolve(request, context={name: request.context[name] for name in names})
                possible = ours.may_ever(known)
                if ours.decide(request).allowed:
                    allowed += 1
                    self.assertTrue(possible, (request, names))
                impossible += not possible
        self.assertGreater(allowed, 100)
        self.assertGreater(impossible, 100)
