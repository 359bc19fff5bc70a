"""A small gateway for the policy tests: people, resources, policies, requests."""

from __future__ import annotations

from random import Random
from typing import Any

from attrs import evolve
from cedarpy import Schema, validate_policies

from svc.model.policy.access import AccessRequest, Entity, EntityUid
from svc.policy.claims import claims_read
from svc.policy.compile import compile_policy, read_policies
from svc.policy.engine import CompiledPolicy
from svc.policy.entities import (
    Facts,
    GroupFacts,
    OperatorFacts,
    PersonFacts,
    ResourceFacts,
    entities_of,
)
from svc.policy.prescan import PolicyLimits
from svc.policy.vocabulary import vocabulary

WORDS = vocabulary()
SCHEMA = Schema.from_str(WORDS.schema)
CLUSTER = "gate.example"
GROUPS, PEOPLE, THINGS = 8, 20, 20

OPEN: tuple[tuple[str, str, str], ...] = (
    ("tcpConnect", "connect", "TcpService"),
    ("sshConnect", "connect", "Server"),
    ("dbConnect", "db_connect", "Database"),
    ("dbQuery", "db_query", "Database"),
    ("webAccess", "web", "WebApp"),
)


def everybody() -> tuple[Entity, ...]:
    """Groups, people in two of them each, and a resource of every kind in turn."""
    facts: list[Facts] = [OperatorFacts("local:0")]
    facts += [GroupFacts(f"g{n}") for n in range(GROUPS)]
    facts += [
        PersonFacts(f"u{n}", f"name{n}", (f"g{n % GROUPS}", f"g{n * 3 % GROUPS}"))
        for n in range(PEOPLE)
    ]
    types = sorted({kind for _, _, kind in OPEN})
    facts += [
        ResourceFacts(
            id=f"r{n}",
            entity_type=kind,
            kind="word",
            labels={"env": ("prod", "test")[n % 2]},
            discovered={"os": "linux"},
        )
        for n in range(THINGS)
        for kind in types
    ]
    return entities_of(facts, CLUSTER)


def ask(
    principal: str = "u1",
    resource: str = "r1",
    action: str = "tcpConnect",
    kind: Any = "connect",
    type_: str = "TcpService",
    **context: Any,
) -> AccessRequest:
    """A request; the person and the resource by their ids."""
    return AccessRequest(
        request_kind=kind,
        principal=EntityUid("User", principal),
        action=action,
        resource=EntityUid(type_, resource),
        context=context,
    )


def engine(text: str, version: int = 1) -> CompiledPolicy:
    """An engine over :func:`everybody`."""
    return compile_policy(text, WORDS, everybody(), version, 7)


_FROM_INSIDE = (
    "context has proxy_reported.source_address && "
    'context.proxy_reported.source_address.isInRange(ip("10.0.0.0/8"))'
)
_CONDITIONS = (
    "true",
    'principal is User && principal.name like "name1*"',
    'principal in Group::"g1"',
    'principal == User::"u3"',
    "context has hour && context.hour >= 12",
    "context has weekday && context.weekday < 6",
    "context has mfa_age_seconds && context.mfa_age_seconds < 300",
    (
        "context has approved_request && context.approved_request has approver && "
        'context.approved_request.approver == "p1"'
    ),
    _FROM_INSIDE,
    "context has now && context.now > 1000",
    'action in Action::"use"',
    "context has hour && context.hour * 9223372036854775807 > 1",  # overflows: an error
    '[context].contains(context) && principal in Group::"g2"',  # reads all of it
)
_PRINCIPALS = (
    "principal",
    'principal == User::"u2"',
    'principal in Group::"g%d"',
    "principal is User",
    'principal is User in Group::"g%d"',
)
_ACTIONS = (
    "action",
    'action == Action::"%s"',
    'action in [Action::"%s", Action::"dbQuery"]',
    'action in Action::"use"',
)
_RESOURCES = (
    "resource",
    'resource == Server::"r1"',
    "resource is Database",
    'resource == TcpService::"r2"',
)


def random_policy(random: Random, name: str) -> str:
    """One policy of random scope, condition and effect, valid and of effect by itself."""
    while True:
        text = _any_policy(random, name)
        if validate_policies(text, SCHEMA).validation_passed and not _without_effect(text):
            return text


def _without_effect(text: str) -> bool:
    """Whether it is a permit that may read a claim, which Cedar would let count."""
    claims = claims_read(read_policies(text, WORDS, PolicyLimits()), WORDS)
    return any(claim.is_permit for claim in claims)


def _any_policy(random: Random, name: str) -> str:
    effect = "permit" if random.random() < 0.75 else "forbid"
    principal = random.choice(_PRINCIPALS).replace("%d", str(random.randrange(GROUPS)))
    action = random.choice(_ACTIONS).replace("%s", random.choice(OPEN)[0])
    resource = random.choice(_RESOURCES)
    word = random.choice(("when", "unless"))
    condition = random.choice(_CONDITIONS)
    return f'@id("{name}") {effect} ({principal}, {action}, {resource}) {word} {{ {condition} }};'


def random_request(random: Random) -> AccessRequest:
    """A request of anybody for anything, with some facts."""
    action, kind, type_ = random.choice(OPEN)
    context: dict[str, Any] = {
        "hour": random.randrange(24),
        "weekday": random.randrange(1, 8),
        "now": random.randrange(2_000),
        "mfa_age_seconds": random.randrange(600),
        "approved_request": {"id": "a1", "approver": random.choice(("p1", "p2")), "expires": 9},
        "proxy_reported": {"source_address": random.choice(("10.1.2.3", "192.0.2.1", "odd"))},
    }
    chosen = {name: context[name] for name in context if random.random() < 0.6}
    return ask(
        f"u{random.randrange(PEOPLE + 2)}", f"r{random.randrange(4)}", action, kind, type_, **chosen
    )


def altered(random: Random, entities: tuple[Entity, ...]) -> tuple[Entity, ...]:
    """Another revision: some entities are gone, some are new, some say something else."""
    found = {one.uid: one for one in entities}
    for _ in range(random.randrange(1, 5)):
        type_ = random.choice(("User", "User", "Group", "TcpService", "Database"))
        uid = random.choice([one for one in found if one.type == type_])
        one = found[uid]
        match random.randrange(4):
            case 0 if len(found) > PEOPLE:
                del found[uid]
            case 1 if uid.type == "User":
                groups = random.sample([f"g{n}" for n in range(GROUPS + 1)], 2)
                parents = tuple(EntityUid("Group", group) for group in groups)
                found[uid] = evolve(one, parents=parents)
            case 2 if one.tags:
                found[uid] = evolve(one, tags={**one.tags, "env": random.choice(("prod", "new"))})
            case _:
                found |= {back.uid: back for back in random.sample(everybody(), 2)}
    return tuple(found[uid] for uid in sorted(found))
