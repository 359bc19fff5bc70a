"""A hundred policy texts that must never be in force: too deep, too large, or no policies."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from svc.testing.gateway.settings import POLICY

TOO_DEEP, TOO_LARGE, INVALID = "policy_too_deep", "policy_too_large", "policy_invalid"


def policy(condition: str) -> str:
    """A policy with this condition, behind those a gateway of the tests has."""
    scope = 'principal, action in Action::"use", resource'
    return f'{POLICY}\n@id("hostile") forbid ({scope}) when {{ {condition} }};\n'


HOSTILE = {
    "800 parentheses": (policy("(" * 800 + "true" + ")" * 800), TOO_DEEP),
    "1,400 terms": (policy(" && ".join(["true"] * 1_400)), TOO_DEEP),
    "5,000 missing attributes": (policy(" && ".join(["context.missing == 1"] * 5_000)), TOO_DEEP),
    "10 MB": (policy("true") + "//" + "x" * 10_000_000, TOO_LARGE),
    "no policy": ("permit everything", INVALID),
    "unknown word": (policy("principal.height > 3"), INVALID),
}
"""Text and the reason it is refused for; those that ended a process before there was a guard."""

_NESTS: dict[str, Callable[[int], str]] = {
    "parentheses": lambda n: "(" * n + "true" + ")" * n,
    "sets": lambda n: "[" * n + "1" + "]" * n + " == 1",
    "records": lambda n: "{a: " * n + "1" + "}" * n + " == 1",
    "conditions": lambda n: "if true then (" * n + "true" + ") else false" * n,
    "negations": lambda n: "!(" * n + "true" + ")" * n,
    "and": lambda n: " && ".join(["true"] * n),
    "or": lambda n: " || ".join(["false"] * n),
    "sums": lambda n: " + ".join(["1"] * n) + " == 1",
    "attributes": lambda n: "context" + ".a" * n + " == 1",
    "methods": lambda n: "[1]" + ".contains(1)" * n,
    "indices": lambda n: "context" + '["a"]' * n + " == 1",
}
_DEPTHS = (240, 1_000, 5_000, 20_000)
_JUST_UNDER = ("sets", "records", "conditions", "attributes", "methods", "indices")
"""What Cedar's own limit meets: the scan before it lets 150 levels through."""

_BROKEN = (
    "true",
    "permit",
    "permit()",
    "permit (principal, action, resource)",
    ";",
    "}{",
    '"',
    "permit (principal, action, resource) when { true }",
    "@id() permit (principal);",
    "/*",
    "permit (principal, action, resource) when { 9223372036854775808 == 1 };",
    'permit (principal == ?principal, action, resource) when { "a" > 1 };',
    "permit (principal in ?resource, action, resource);",
    "forbid (principal, resource, action);",
    "grant (principal, action, resource);",
    "permit (principal, action, resource) when { context };",
    "permit (principal, action, resource) when { 1 };",
    'permit (principal, action, resource) when { "yes" };',
    "permit (principal, action, resource) when { [true] };",
    'permit (principal == Nobody::"a", action, resource);',
    'permit (principal, action == Action::"fly", resource);',
    'permit (principal, action, resource == Moon::"a");',
    "permit (principal, action, resource) when { nosuch(1) };",
    "permit (principal, action, resource) when { context.nosuch };",
    "permit (principal, action, resource) unless { resource.nosuch == 1 };",
    'permit (principal, action, resource) when { ip("1.2.3.4.5").isLoopback() };',
    'permit (principal, action, resource) when { decimal("x").lessThan(decimal("1.0")) };',
    "permit (principal is Nobody, action, resource);",
    'permit (principal, action, resource) when { principal has "' + "\\u{110000}" + '" };',
    "permit (principal, action, resource) when { '1' == 1 };",
    "\ufeff" + "permit (principal, action, resource) when { true && };",
    "permit (principal, action, resource) when { principal like 1 };",
    "permit (principal, action, resource) when { if true then 1 };",
    "permit (principal, action, resource) when { 1 = 1 };",
    "permit (principal, action, resource) when { 1 < };",
    "{}",
    "[]",
    "null",
    "<policy/>",
    "SELECT 1;",
)


def bad_policies(count: int) -> Iterator[tuple[str, str]]:
    """So many of them, with what to call each."""
    found = list(_all())
    assert len(found) >= count, len(found)
    yield from found[:count]


def _all() -> Iterator[tuple[str, str]]:
    for label, (text, _) in HOSTILE.items():
        yield label, text
    for depth in _DEPTHS:
        for label, nest in _NESTS.items():
            yield f"{depth} {label}", policy(nest(depth))
    for label in _JUST_UNDER:
        yield f"150 {label}", policy(_NESTS[label](150))
    for size in (300_000, 1_000_000, 4_000_000):
        yield f"{size} bytes of text", policy(f'principal == User::"{"x" * size}"')
    yield "6,000 policies", POLICY + 'forbid (principal == User::"a", action, resource);\n' * 6_000
    for text in _BROKEN:
        yield f"broken: {text[:60]!r}", text
